package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/account"
)

// Note implements account.Store. It is one statement without a lock, so servers never
// wait for each other here. The database assigns the numbers. An entry may become
// visible after an entry with a higher number, but always before its request is
// answered. A failed statement leaves a gap in the numbers.
func (a Accounts) Note(ctx context.Context, e account.Entry) error {
	return a.m.apply(ctx, do(`INSERT INTO audit (at, who, account_id, domain_id, face, call, target, outcome) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		nanos(e.At), e.Who, e.Account, e.Domain, e.API, e.Call, e.Target, e.Outcome))
}

// Trail implements account.Store.
func (a Accounts) Trail(ctx context.Context, q account.TrailQuery) (found []account.Entry, err error) {
	where, args := visibilityOf(q)
	if where == "" {
		return nil, ctx.Err()
	}
	args = append(args, int64(q.Size()))
	err = a.read(ctx, func(s session) error {
		found = nil
		return s.query(fmt.Sprintf(`SELECT seq, at, who, account_id, domain_id, face, call, target, outcome FROM audit
			WHERE %s ORDER BY seq DESC LIMIT CAST($%d AS bigint)`, where, len(args)), args, func(r row) error {
			found = append(found, account.Entry{
				Seq: r.int(0), At: instant(r.int(1)), Who: r.text(2), Account: r.text(3), Domain: r.text(4), API: r.text(5), Call: r.text(6), Target: r.text(7), Outcome: r.text(8),
			})
			return nil
		})
	})
	return found, err
}

// visibilityOf returns the WHERE clause of a query; "" if the caller may see nothing.
func visibilityOf(q account.TrailQuery) (where string, args []any) {
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	var owners []string
	if q.Visibility.AccountID != "" {
		owners = append(owners, "account_id = "+arg(q.Visibility.AccountID))
	}
	for _, d := range q.Visibility.DomainIDs {
		owners = append(owners, "domain_id = "+arg(d))
	}
	var all []string
	switch {
	case q.Visibility.All:
		args = nil
	case len(owners) == 0:
		return "", nil
	default:
		all = append(all, "("+strings.Join(owners, " OR ")+")")
	}
	if q.Target != "" {
		all = append(all, "target = "+arg(q.Target))
	}
	if q.Before > 0 {
		all = append(all, "seq < "+arg(q.Before))
	}
	return strings.Join(append(all, "1 = 1"), " AND "), args
}
