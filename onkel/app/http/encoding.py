"""Values as JSON."""

import msgspec

encode = msgspec.json.Encoder().encode
