"""What a fleet needs, from measured costs and assumptions."""

import math

from measured import Problem

VEHICLES = [1_000, 100_000, 1_000_000, 10_000_000]
INTERVALS = [1, 10, 60]

# Name, default, unit, meaning. Each is a flag.
ASSUMPTIONS = [
    ("hours", 8.0, "h", "driven by a vehicle in a day"),
    ("peak", 0.5, "share", "of the vehicles drive at the busiest time"),
    ("trip", 30.0, "min", "duration of a trip"),
    ("format", "canonical", "", "format of the records, from the table of formats"),
    ("record", 30.0, "bytes", "key and framing of a record in the topic; nothing is compressed"),
    ("event", 800.0, "bytes", "an event of the change feed, with its headers"),
    ("retention", 7.0, "days", "that brokers keep the topic and the change feed"),
    ("topic-copies", 3, "", "replication factor of the topics"),
    ("broker-rate", 50.0, "MB/s", "that a broker writes, copies included"),
    ("broker-disk", 2.0, "TB", "that a broker may fill"),
    ("partitions", 4, "", "partitions for each instance"),
    ("cores", 2, "", "cores of an instance; more were not measured"),
    ("use", 0.5, "share", "of its CPU that an instance may use at the busiest time"),
    ("spare", 1, "", "instances that may be down"),
    ("margin", 0.25, "share", "more memory than the running trips take"),
    ("row-copies", 3, "", "replication factor of the keyspace"),
    ("node-cores", 8, "", "cores of a CQL node"),
    ("node-use", 0.4, "share", "of its CPU that a CQL node may use at the busiest time"),
    ("node-disk", 4.0, "TB", "of a CQL node, free space for compaction included"),
    ("compaction", 2.0, "times", "disk for each byte of rows, for compaction and old versions"),
    ("midnight", 0.05, "share", "of the trips touch two UTC days and so are stored twice"),
]


class Need:
    """What a fleet needs."""

    def __init__(self, costs, given, vehicles, interval):
        if interval not in costs.rows:
            known = ", ".join(str(it) for it in costs.rows)
            raise Problem(f"rows were not measured at an interval of {interval} s, but of {known}")
        if given["format"] not in costs.formats:
            raise Problem(f"`{given['format']}` is not in the table of formats; "
                          f"one of: {', '.join(costs.formats)}")
        self.costs, self.given, self.vehicles, self.interval = costs, given, vehicles, interval
        self.samples_a_trip = given["trip"] * 60 / interval
        self.driving = vehicles * given["peak"]
        self.rate = self.driving / interval
        self.mean_rate = vehicles * given["hours"] / 24 / interval
        self.rows = costs.rows[interval]
        self.path = costs.path_sample(interval, self.samples_a_trip)
        self.stored_trip = costs.trip + self.path * self.samples_a_trip
        # A trip is written in full; while it grows, it has half of its samples on average.
        self.row = costs.trip + self.path * self.samples_a_trip / 2
        self.larger = max(1.0, self.row / costs.row_bytes)
        self._brokers()
        self._instances()
        self._nodes()

    def _brokers(self):
        given = self.given
        size, _ = self.costs.formats[given["format"]]
        a_sample = size + given["record"] + self.rows * given["event"]
        self.topic_rate = self.rate * a_sample
        written = self.topic_rate * given["topic-copies"]
        self.topic_disk = (self.mean_rate * a_sample * 86_400 * given["retention"]
                           * given["topic-copies"])
        self.brokers, self.brokers_by = most({
            "copies": given["topic-copies"],
            "rate": written / (given["broker-rate"] * 1e6),
            "disk": self.topic_disk / (given["broker-disk"] * 1e12),
        })

    def _instances(self):
        costs, given = self.costs, self.given
        # Both runs decoded canonical JSON.
        decoding = costs.formats[given["format"]][1] - costs.formats["canonical"][1]
        self.cpu = (max(0.0, costs.replayed + decoding)
                    + self.rows * costs.row * self.larger)
        # Each instance has its idle work, too.
        share = given["cores"] * given["use"] - costs.idle / 1e6
        if share <= 0:
            raise Problem("an instance of --cores and --use has no CPU beyond its idle work")
        working = max(1, math.ceil(self.rate * self.cpu / 1e6 / share))
        self.instances = working + given["spare"]
        self.partitions = self.instances * given["partitions"]
        self.state = self.driving * (costs.device + costs.sample * self.samples_a_trip)
        self.memory = max(512e6, self.state / working * (1 + given["margin"]))
        self.resident = costs.base + self.memory

    def _nodes(self):
        costs, given = self.costs, self.given
        cpu = self.rate * self.rows * costs.cql_row * self.larger * given["row-copies"] / 1e6
        share = given["node-cores"] * given["node-use"] - costs.cql_idle / 1e6
        if share <= 0:
            raise Problem("a node of --node-cores and --node-use has no CPU beyond its idle work")
        trips = self.vehicles * given["hours"] * 60 / given["trip"] * 365 * (1 + given["midnight"])
        self.year = trips * self.stored_trip * given["row-copies"] * given["compaction"]
        self.nodes, self.nodes_by = most({
            "copies": given["row-copies"],
            "CPU": cpu / share,
            "disk": self.year / (given["node-disk"] * 1e12),
        })


def most(needs):
    """The largest of some needs, rounded up, and which it is; the first one if they are equal.

    >>> most({"copies": 3, "CPU": 2.5}), most({"copies": 3, "CPU": 3.2, "disk": 3.9})
    ((3, 'copies'), (4, 'disk'))
    """
    by = max(needs, key=needs.get)
    return math.ceil(needs[by]), by
