package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
)

// caller returns the caller of a request for the cluster service. Without accounts
// every caller is the operator.
func (s *Server) caller(ctx context.Context) cluster.Caller {
	who := callOf(ctx).who
	if s.options.Accounts != nil {
		if found, err := (Directory{Store: s.options.Accounts.Store}).Account(ctx, who); err == nil {
			c := Caller(found)
			if who.Account == "" {
				c.User = who.Name
			}
			return c
		}
		return cluster.Caller{User: who.Name} // sees nothing
	}
	operator := who.Role >= Operator
	return cluster.Caller{
		User: who.Name, Owner: cluster.Owner{AccountID: account.SystemID, DomainID: account.RootID},
		Operator: operator, Scope: cluster.Scope{All: operator},
	}
}

// jobID returns a job id that depends on the Idempotency-Key: requests with one key
// are one job, even if the server dies after it has written the job and before it has
// stored the answer. It is empty without a key.
func jobID(ctx context.Context) string {
	c := callOf(ctx)
	if c.key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(requestID(c) + "\x00" + c.path))
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-8" + h[13:16] + "-a" + h[17:20] + "-" + h[20:32]
}
