package port

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// PoolerParameters that a spec may set, by their names in pgbouncer.ini (pgbouncer.org/config.html).
// Addresses, authentication and files belong to the supervisor.
var PoolerParameters = []string{
	"client_idle_timeout", "client_login_timeout", "idle_transaction_timeout", "ignore_startup_parameters",
	"log_connections", "log_disconnections", "log_pooler_errors", "max_db_connections", "max_user_connections", "min_pool_size",
	"query_timeout", "query_wait_timeout", "reserve_pool_size", "reserve_pool_timeout", "server_check_delay", "server_check_query",
	"server_connect_timeout", "server_fast_close", "server_idle_timeout", "server_lifetime", "server_login_retry",
	"server_reset_query", "server_reset_query_always", "server_round_robin", "stats_period", "tcp_keepalive", "tcp_keepcnt",
	"tcp_keepidle", "tcp_keepintvl", "tcp_user_timeout",
}

// The modes of a pool.
const (
	TransactionPooling = "transaction" // a client has a connection to the writer for a transaction
	SessionPooling     = "session"     // for its whole session: a switch ends the sessions that a client has begun
)

// Check returns why the settings cannot be used, or nil.
func (s PoolerSettings) Check() error {
	if s.Mode != "" && s.Mode != TransactionPooling && s.Mode != SessionPooling {
		return fmt.Errorf("mode: %q is none of transaction, session", s.Mode)
	}
	if s.MaxClients < 0 || s.PoolSize < 0 {
		return fmt.Errorf("maxClientConnections, defaultPoolSize: %d and %d are not both positive", s.MaxClients, s.PoolSize)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Parameters)) {
		if !slices.Contains(PoolerParameters, name) {
			return fmt.Errorf("parameters: %s cannot be set; allowed are %s", name, strings.Join(PoolerParameters, ", "))
		}
		if value := s.Parameters[name]; strings.ContainsAny(value, "\n\r\x00%") {
			return fmt.Errorf("parameters: the value of %s is not one line without %%", name)
		}
	}
	return nil
}

// Hash returns a short hash of the settings in effect.
func (s PoolerSettings) Hash() string {
	if len(s.Parameters) == 0 {
		s.Parameters = nil
	}
	text, _ := json.Marshal(s.Filled()) // strings and numbers only
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// Filled returns the settings with all defaults.
func (s PoolerSettings) Filled() PoolerSettings {
	s.Mode, s.MaxClients, s.PoolSize = cmp.Or(s.Mode, TransactionPooling), cmp.Or(s.MaxClients, 100), cmp.Or(s.PoolSize, 20)
	return s
}
