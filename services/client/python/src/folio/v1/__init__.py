"""The protocol's own messages and stubs, generated from proto/folio/v1 when the package is built."""
