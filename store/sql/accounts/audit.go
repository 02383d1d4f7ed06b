package accounts

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/store/sql/db"
)

// Note implements account.Store. It is one statement without a lock, so servers never
// wait for each other here. The database assigns the numbers. An entry may become
// visible after an entry with a higher number, but always before its request is
// answered. A failed statement leaves a gap in the numbers.
func (a Store) Note(ctx context.Context, e account.Entry) error {
	return a.m.Apply(ctx, db.Single(`INSERT INTO audit (at, who, account_id, domain_id, face, call, target, outcome) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		db.Nanos(e.At), e.Who, e.Account, e.Domain, e.API, e.Call, e.Target, e.Outcome))
}

// Trail implements account.Store.
func (a Store) Trail(ctx context.Context, q account.TrailQuery) (found []account.Entry, err error) {
	where, args := visibilityOf(q)
	if where == "" {
		return nil, ctx.Err()
	}
	args = append(args, int64(q.Size()))
	err = a.read(ctx, func(s db.Session) error {
		found = nil
		return s.Query(fmt.Sprintf(`SELECT seq, at, who, account_id, domain_id, face, call, target, outcome FROM audit
			WHERE %s ORDER BY seq DESC LIMIT CAST($%d AS bigint)`, where, len(args)), args, func(r db.Row) error {
			found = append(found, account.Entry{
				Seq: r.Int(0), At: db.Instant(r.Int(1)), Who: r.Text(2), Account: r.Text(3), Domain: r.Text(4), API: r.Text(5), Call: r.Text(6), Target: r.Text(7), Outcome: r.Text(8),
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
	if q.Account != "" {
		all = append(all, "account_id = "+arg(q.Account))
	}
	if q.Outcome != "" {
		equals := map[bool]string{true: "=", false: "<>"}[q.Outcome == account.OK]
		all = append(all, "outcome "+equals+" "+arg(account.OK))
	}
	if q.Before > 0 {
		all = append(all, "seq < "+arg(q.Before))
	}
	return strings.Join(append(all, "1 = 1"), " AND "), args
}
