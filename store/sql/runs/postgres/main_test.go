package postgres_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/store/sql/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }
