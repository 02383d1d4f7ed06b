package sqlite_test

import (
	"testing"

	"github.com/pawl-dev/pawl/store/sql/sqltest"
)

func TestEventsOf(t *testing.T) { sqltest.CheckEventsOf(t, sqltest.SQLite(t)) }
