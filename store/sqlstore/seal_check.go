package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// sealSample is how many rows of each table CheckSeals looks at.
const sealSample = 100

// CheckSeals opens some secrets of each kind: a server that has been given
// another master key learns so before it seals more with it.
// MASTER_KEY_UNKNOWN, MASTER_KEY_MISSING.
func (s *SQLite) CheckSeals(ctx context.Context) error { return checkSeals(ctx, sqMedium{s}, s.seal) }

// CheckSeals opens some secrets of each kind. See SQLite.CheckSeals.
func (p *Postgres) CheckSeals(ctx context.Context) error { return checkSeals(ctx, pgMedium{p}, p.seal) }

func checkSeals(ctx context.Context, m medium, seal *Sealer) error {
	for _, t := range sealedTables {
		sql := fmt.Sprintf("SELECT %s, %s FROM %s ORDER BY %s LIMIT %d", t.owner, strings.Join(t.columns, ", "), t.name, t.owner, sealSample)
		var strange error
		err := m.read(ctx, func(s session) error {
			strange = nil
			return s.query(sql, nil, func(r row) error {
				for i, column := range t.columns {
					_, err := seal.Open(place(t.name, column, r.text(0)), r.bytes(i+1))
					if strange == nil && (errors.Is(err, MasterKeyUnknown) || errors.Is(err, MasterKeyMissing)) {
						strange = err // what is damaged is told when it is needed
					}
				}
				return nil
			})
		})
		if err == nil {
			err = strange
		}
		if err != nil {
			return err
		}
	}
	return nil
}
