"""An OpenTelemetry collector: it takes traces by the official definitions (PyPI's opentelemetry-proto) and keeps their spans."""

import collections
import concurrent.futures
import threading

import grpc
from node import PATIENCE, wait_until
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


def plain(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(one) for one in value.array_value.values]
    return getattr(value, kind)


def mapping(attributes):
    found = {pair.key: plain(pair.value) for pair in attributes}
    assert len(found) == len(attributes), "an attribute is there twice"
    return found


class Span:
    """A span with plain attributes, and those of its process."""

    def __init__(self, process, message):
        self.process, self.message = mapping(process), message
        self.attributes = mapping(message.attributes)
        self.service = self.process["service.name"]
        self.trace, self.id, self.parent = message.trace_id.hex(), message.span_id.hex(), message.parent_span_id.hex()
        self.name, self.kind = message.name, message.kind
        self.start, self.end = message.start_time_unix_nano / 1e9, message.end_time_unix_nano / 1e9
        self.events = {event.name: event.time_unix_nano / 1e9 for event in message.events}

    @property
    def length(self):
        return (self.message.end_time_unix_nano - self.message.start_time_unix_nano) / 1e9

    def __repr__(self):
        return f"{self.service} {self.name} {self.attributes}"


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Listens at `port`, or a free one. It may stop and start."""

    def __init__(self):
        self.lock, self.found, self.server, self.port = threading.Lock(), [], None, 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port(f"127.0.0.1:{self.port}")
        self.server.start()

    def stop(self):
        if self.server is not None:
            self.server.stop(None).wait()
            self.server = None

    def Export(self, request, context):
        with self.lock:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    assert scope.scope.name == "folio"
                    self.found += [Span(resource.resource.attributes, span) for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()

    @property
    def flag(self):
        return f"--otlp_endpoint=127.0.0.1:{self.port}"

    def spans(self, **fields):
        """Those that have come, with these values."""
        with self.lock:
            return [span for span in self.found if all(getattr(span, key) == value for key, value in fields.items())]

    def until(self, count, **fields):
        """The spans with these values, once there are so many."""
        return wait_until(lambda: len(found := self.spans(**fields)) >= count and found, PATIENCE, f"{count} spans {fields}: {self.found}")

    def one(self, **fields):
        (span,) = self.until(1, **fields)
        return span

    def children(self, parent, at_least=1):
        """Name -> the spans in `parent`, in the order of their beginnings."""
        found = collections.defaultdict(list)
        for span in sorted(self.until(at_least, parent=parent.id, trace=parent.trace), key=lambda span: span.start):
            found[span.name].append(span)
        return found
