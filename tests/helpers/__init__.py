"""What several tests share: cases, models, streams, servers. No file here is a test."""
