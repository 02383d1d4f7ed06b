package postgres_test

import (
	"testing"

	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
)

func TestEventsOf(t *testing.T) {
	p, _ := sqltest.Postgres(t, pgtest.Options{NoSync: true})
	sqltest.CheckEventsOf(t, p)
}
