package db

import (
	"testing"

	"github.com/pawl-dev/pawl/fault"
)

func TestMissingMigrations(t *testing.T) {
	known := []Migration{{Number: 1, Checksum: "a"}, {Number: 2, Checksum: "b"}}
	for _, c := range []struct {
		name string
		done []Applied
		want int
		err  *fault.Kind
	}{
		{"a new database", nil, 2, nil},
		{"one behind", []Applied{{Number: 1, Checksum: "a"}}, 1, nil},
		{"up to date", []Applied{{Number: 1, Checksum: "a"}, {Number: 2, Checksum: "b"}}, 0, nil},
		{"newer", []Applied{{Number: 1, Checksum: "a"}, {Number: 2, Checksum: "b"}, {Number: 3, Checksum: "c"}}, 0, SchemaNewer},
		{"edited", []Applied{{Number: 1, Checksum: "z"}}, 0, SchemaChanged},
	} {
		got, err := Missing(known, c.done)
		if len(got) != c.want || fault.Of(err) != c.err {
			t.Errorf("%s: %d, %v", c.name, len(got), err)
		}
	}
}
