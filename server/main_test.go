package server_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write docs/openapi.yaml anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
