package tstar.streams;

import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.SessionStore;

/**
 * Builds trips from a topic of samples: session windows of the time in the sample, keyed by device.
 *
 * <p>Arguments: brokers, topic, topic of the trips (also the application id), folder of the state,
 * {@code paths} (a trip has all its samples) or {@code ends} (only the first and the last).
 */
public final class Main {
    /** Distance of two samples from which on they belong to two trips: the default of tstar. */
    private static final Duration GAP = Duration.ofMinutes(5);

    /** Longer than the fleet of the bench is late. */
    private static final Duration GRACE = Duration.ofMinutes(15);

    /** The freshness that lookups of tstar are to have. */
    private static final int COMMIT_INTERVAL_MS = 1500;

    /** So much that only commits write trips, not a full cache. */
    private static final long CACHE_BYTES = 512L << 20;

    private Main() {}

    public static void main(String[] args) throws InterruptedException {
        if (args.length != 5) {
            System.err.println("usage: BROKERS TOPIC TRIPS_TOPIC STATE_FOLDER paths|ends");
            System.exit(2);
        }
        Topology topology = topology(args[1], args[2], args[4].equals("paths"));
        KafkaStreams streams = new KafkaStreams(topology, properties(args[0], args[2], args[3]));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        CountDownLatch failed = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.ERROR) {
                failed.countDown();
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        failed.await();
        System.exit(1);
    }

    private static Topology topology(String topic, String output, boolean withPaths) {
        Serde<Sample> samples = Serdes.serdeFrom(
                (name, sample) -> { throw new UnsupportedOperationException(); },
                (name, bytes) -> Sample.parse(bytes));
        Trips trips = new Trips(withPaths);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(
                        topic,
                        Consumed.with(Serdes.String(), samples)
                                .withTimestampExtractor((record, time) ->
                                        ((Sample) record.value()).timeMs()))
                .groupByKey(Grouped.with(Serdes.String(), samples))
                .windowedBy(SessionWindows.ofInactivityGapAndGrace(GAP, GRACE))
                .aggregate(
                        () -> Trips.EMPTY,
                        trips::add,
                        trips::join,
                        Materialized.<String, byte[], SessionStore<Bytes, byte[]>>as("trips")
                                .withKeySerde(Serdes.String())
                                .withValueSerde(Serdes.ByteArray()))
                .toStream()
                .to(output, Produced.with(
                        WindowedSerdes.sessionWindowedSerdeFrom(String.class),
                        Serdes.ByteArray()));
        return builder.build();
    }

    private static Properties properties(String brokers, String application, String folder) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, brokers);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        properties.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.AT_LEAST_ONCE);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, COMMIT_INTERVAL_MS);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, CACHE_BYTES);
        properties.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4");
        return properties;
    }
}
