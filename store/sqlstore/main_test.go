package sqlstore

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl/store/sqlstore/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main(m)) }
