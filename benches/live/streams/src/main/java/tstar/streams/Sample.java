package tstar.streams;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.time.Instant;
import org.apache.kafka.common.errors.SerializationException;

/**
 * A sample of a device.
 *
 * @param timeMs device time
 * @param lat latitude, millionths of a degree
 * @param lon longitude, millionths of a degree
 * @param speed cm/s
 * @param heading tenths of a degree
 */
record Sample(long timeMs, int lat, int lon, short speed, short heading) {
    private static final JsonFactory JSON = new JsonFactory();

    /** Parses a canonical JSON sample. */
    static Sample parse(byte[] json) {
        String time = null;
        double lat = Double.NaN;
        double lon = Double.NaN;
        double speed = 0;
        double heading = 0;
        try (JsonParser parser = JSON.createParser(json)) {
            parser.nextToken();
            while (parser.nextToken() == JsonToken.FIELD_NAME) {
                String name = parser.currentName();
                parser.nextToken();
                switch (name) {
                    case "time" -> time = parser.getText();
                    case "lat" -> lat = parser.getDoubleValue();
                    case "lon" -> lon = parser.getDoubleValue();
                    case "speed" -> speed = parser.getDoubleValue();
                    case "heading" -> heading = parser.getDoubleValue();
                    default -> parser.skipChildren();
                }
            }
        } catch (IOException error) {
            throw new SerializationException("not a sample", error);
        }
        if (time == null || Double.isNaN(lat) || Double.isNaN(lon)) {
            throw new SerializationException("a sample without time or position");
        }
        return new Sample(
                Instant.parse(time).toEpochMilli(),
                (int) Math.round(lat * 1e6),
                (int) Math.round(lon * 1e6),
                (short) Math.round(speed * 100),
                (short) Math.round(heading * 10));
    }
}
