{{/* The pod template, of a file and of a keyspace. */}}
{{- define "tstar.pod" -}}
{{- $isFile := eq .Values.store.kind "file" -}}
{{- $scheme := ternary "HTTPS" "HTTP" (ne .Values.http.tlsSecret "") -}}
metadata:
  labels:
    {{- include "tstar.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/settings: {{ include "tstar.settings" . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "tstar.fullname" . }}
  automountServiceAccountToken: false
  # Variables of services would look like settings: TSTAR_PORT.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ add (int .Values.drainTimeoutSeconds) 15 }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: tstar
      image: {{ include "tstar.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - run
        - --config=/etc/tstar/tstar.toml
        {{- with .Values.run.from }}
        - --from={{ . }}
        {{- end }}
        {{- if .Values.run.createTopics }}
        - --create-topics
        {{- end }}
        {{- if and .Values.run.createSchema (not $isFile) }}
        - --create-schema
        {{- end }}
      env:
        - {name: TSTAR_STORE, value: {{ ternary "sqlite:/var/lib/tstar/trips.db" .Values.store.url $isFile | quote }}}
        - {name: TSTAR_BROKERS, value: {{ .Values.kafka.brokers | quote }}}
        - {name: TSTAR_TOPIC, value: {{ .Values.kafka.topic | quote }}}
        - {name: TSTAR_GROUP, value: {{ .Values.kafka.group | quote }}}
        - {name: TSTAR_LOG_FORMAT, value: json}
        - {name: TSTAR_LISTEN, value: {{ printf "0.0.0.0:%d" (int .Values.http.port) | quote }}}
        {{- if .Values.http.tokenSecret }}
        - {name: TSTAR_TOKEN_FILE, value: {{ printf "/run/secrets/tstar-http/%s" .Values.http.tokenKey | quote }}}
        {{- else if .Values.http.insecure }}
        - {name: TSTAR_INSECURE, value: "true"}
        {{- else }}
        {{- fail "set http.tokenSecret to a Secret with the token of the API, or http.insecure to true" }}
        {{- end }}
        {{- if .Values.http.tlsSecret }}
        - {name: TSTAR_TLS_CERT, value: /run/secrets/tstar-tls/tls.crt}
        - {name: TSTAR_TLS_KEY, value: /run/secrets/tstar-tls/tls.key}
        {{- end }}
        - {name: TSTAR_DRAIN_TIMEOUT, value: {{ printf "%ds" (int .Values.drainTimeoutSeconds) | quote }}}
        - {name: TSTAR_MEMORY, value: {{ .Values.memory | quote }}}
        {{- if not $isFile }}
        {{- if .Values.staticMembership }}
        - name: TSTAR_INSTANCE_ID
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        {{- end }}
        {{- end }}
      ports:
        - {name: http, containerPort: {{ .Values.http.port }}, protocol: TCP}
      # Until the first answer; the other probes wait for it.
      startupProbe:
        httpGet: {path: /livez, port: http, scheme: {{ $scheme }}}
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /livez, port: http, scheme: {{ $scheme }}}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: http, scheme: {{ $scheme }}}
        periodSeconds: 5
        timeoutSeconds: 5
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: settings, mountPath: /etc/tstar, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if $isFile }}
        - {name: store, mountPath: /var/lib/tstar}
        {{- end }}
        {{- if .Values.http.tokenSecret }}
        - {name: http-token, mountPath: /run/secrets/tstar-http, readOnly: true}
        {{- end }}
        {{- if .Values.http.tlsSecret }}
        - {name: http-tls, mountPath: /run/secrets/tstar-tls, readOnly: true}
        {{- end }}
        {{- range .Values.secretFiles }}
        - {name: {{ printf "secret-%s" .name }}, mountPath: {{ printf "/run/secrets/tstar/%s" .name }}, readOnly: true}
        {{- end }}
  volumes:
    - name: settings
      {{- if .Values.settingsSecret }}
      secret: {secretName: {{ .Values.settingsSecret }}, defaultMode: 0400}
      {{- else }}
      configMap: {name: {{ include "tstar.fullname" . }}}
      {{- end }}
    - name: tmp
      emptyDir: {}
    {{- if .Values.http.tokenSecret }}
    - name: http-token
      secret: {secretName: {{ .Values.http.tokenSecret }}, defaultMode: 0400}
    {{- end }}
    {{- if .Values.http.tlsSecret }}
    - name: http-tls
      secret: {secretName: {{ .Values.http.tlsSecret }}, defaultMode: 0400}
    {{- end }}
    {{- range .Values.secretFiles }}
    - name: secret-{{ .name }}
      secret: {secretName: {{ .secret }}, defaultMode: 0400}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
