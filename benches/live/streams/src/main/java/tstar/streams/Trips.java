package tstar.streams;

import java.nio.ByteBuffer;

/**
 * Builds trips. A trip is kept as the bytes that are stored, so that no step converts it: the
 * number of samples received, 4 bytes, then 20 bytes for each sample, by time. Of samples with the
 * same time, the last is kept.
 */
final class Trips {
    /** A trip without samples. */
    static final byte[] EMPTY = new byte[Integer.BYTES];

    private static final int WIDTH = 20;

    /** Whether a trip has all its samples, or only the first and the last. */
    private final boolean withPaths;

    Trips(boolean withPaths) {
        this.withPaths = withPaths;
    }

    /** The trip with one more sample. */
    byte[] add(String device, Sample sample, byte[] trip) {
        byte[] added = new byte[WIDTH];
        ByteBuffer.wrap(added)
                .putLong(sample.timeMs())
                .putInt(sample.lat())
                .putInt(sample.lon())
                .putShort(sample.speed())
                .putShort(sample.heading());
        int at = trip.length;
        while (at > Integer.BYTES && timeAt(trip, at - WIDTH) > sample.timeMs()) {
            at -= WIDTH;
        }
        boolean isRepeated = at > Integer.BYTES && timeAt(trip, at - WIDTH) == sample.timeMs();
        int kept = isRepeated ? at - WIDTH : at;
        byte[] grown = new byte[kept + WIDTH + trip.length - at];
        System.arraycopy(trip, 0, grown, 0, kept);
        System.arraycopy(added, 0, grown, kept, WIDTH);
        System.arraycopy(trip, at, grown, kept + WIDTH, trip.length - at);
        return finish(grown, received(trip) + 1);
    }

    /** Two trips as one. They have no time in common. */
    byte[] join(String device, byte[] one, byte[] other) {
        if (one.length == Integer.BYTES) {
            return other;
        }
        if (other.length == Integer.BYTES) {
            return one;
        }
        byte[] joined = new byte[one.length + other.length - Integer.BYTES];
        int left = Integer.BYTES;
        int right = Integer.BYTES;
        for (int at = Integer.BYTES; at < joined.length; at += WIDTH) {
            boolean isLeft = right == other.length
                    || left < one.length && timeAt(one, left) < timeAt(other, right);
            System.arraycopy(isLeft ? one : other, isLeft ? left : right, joined, at, WIDTH);
            left += isLeft ? WIDTH : 0;
            right += isLeft ? 0 : WIDTH;
        }
        return finish(joined, received(one) + received(other));
    }

    /** Sets the number of samples received, and drops the samples that are not kept. */
    private byte[] finish(byte[] trip, int received) {
        byte[] kept = trip;
        if (!withPaths && trip.length > Integer.BYTES + 2 * WIDTH) {
            kept = new byte[Integer.BYTES + 2 * WIDTH];
            System.arraycopy(trip, Integer.BYTES, kept, Integer.BYTES, WIDTH);
            System.arraycopy(trip, trip.length - WIDTH, kept, Integer.BYTES + WIDTH, WIDTH);
        }
        ByteBuffer.wrap(kept).putInt(0, received);
        return kept;
    }

    private static int received(byte[] trip) {
        return ByteBuffer.wrap(trip).getInt(0);
    }

    private static long timeAt(byte[] trip, int at) {
        return ByteBuffer.wrap(trip).getLong(at);
    }
}
