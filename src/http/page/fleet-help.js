// What a store without devices needs: samples, and how they come in at this server.

import { make } from "./format.js";

/** A command with a button that copies it. */
function command(text) {
  const code = make("code", "", text);
  const copy = make("button", "button small", "Copy", { type: "button" });
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      copy.textContent = "Press Ctrl+C";
    }
  });
  return make("div", "command", [make("pre", "", code), copy]);
}

/** Shows how samples come in. */
export function showHelp({ logged_in: hasToken }) {
  const box = document.getElementById("welcome");
  if (box.childElementCount) return;
  const now = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  const sample = JSON.stringify({ device_id: "van-1", time: now, lat: 52.52, lon: 13.41 });
  const post = [
    "curl -H 'Authorization: Bearer TOKEN' -H 'Content-Type: application/x-ndjson'",
    `  -d '${sample}'`,
    `  ${location.origin}/v1/samples`,
  ].join(" \\\n");
  const token = hasToken
    ? "Over HTTP, with a token that may write:"
    : "Over HTTP, if the server was started with --token-file:";
  box.replaceChildren(
    make("h2", "", "No devices yet"),
    make("p", "", "Vehicles appear here with their first sample. This page shows them at once."),
    make("h3", "", "From a file, on the machine of the server"),
    command("tstar ingest FILE --store URL"),
    make("h3", "", token),
    command(post),
  );
}
