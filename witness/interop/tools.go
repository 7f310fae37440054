//go:build tools

// The programs that the tests run, so that go.mod and go.sum name what they are built from.
package interop

import (
	_ "filippo.io/torchwood/cmd/litebastion"
	_ "filippo.io/torchwood/cmd/litewitness"
)
