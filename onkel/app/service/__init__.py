"""The service: named models over HTTP, each acknowledged example durable."""
