package pooler

import (
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

const (
	adminUser     = "pawl_pooler"
	adminDatabase = "pgbouncer"
	superuser     = "postgres"
)

// authQuery reads the verifier of a role at the writer, so that clients have the roles of the
// cluster and the pooler stores none of their passwords.
const authQuery = "SELECT rolname, CASE WHEN rolvaliduntil IS NULL OR rolvaliduntil > now() THEN rolpassword END FROM pg_catalog.pg_authid WHERE rolname = $1 AND rolcanlogin"

// configuration returns pgbouncer.ini.
func configuration(c Config, s port.PoolerSettings, target, users string, tls tlsSettings) string {
	s = s.Filled()
	host, number, _ := net.SplitHostPort(target)
	values := map[string]string{
		"tcp_user_timeout": "10000", "server_login_retry": "1", "ignore_startup_parameters": "extra_float_digits",
	}
	maps.Copy(values, s.Parameters)
	maps.Copy(values, map[string]string{
		"listen_addr": c.Host, "listen_port": fmt.Sprint(c.Port), "unix_socket_dir": "",
		"auth_type": "scram-sha-256", "auth_file": users, "auth_query": authQuery, "auth_user": superuser, "admin_users": adminUser,
		"pool_mode": s.Mode, "max_client_conn": fmt.Sprint(s.MaxClients), "default_pool_size": fmt.Sprint(s.PoolSize),
	})
	maps.Copy(values, tls.values())
	if tls.refuses() {
		values["auth_type"], values["auth_hba_file"] = "hba", filepath.Join(filepath.Dir(users), hbaFile)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "[databases]\n* = host=%s port=%s\n\n[pgbouncer]\n", host, number)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&text, "%s = %s\n", name, values[name])
	}
	return text.String()
}
