package postgres

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/enginelog"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/pgbackrest"
)

// defaults are settings that parameters may override.
var defaults = map[string]string{
	"wal_level":                   "replica", // or logical; logical while there are logical slots
	"max_connections":             "100",
	"max_wal_senders":             "32",
	"max_replication_slots":       "32",
	"max_worker_processes":        "8", // this and the next two are PostgreSQL's defaults: a follower has floors for them, and
	"max_prepared_transactions":   "0", // a setting that leaves the file waits for a restart, even with its default
	"max_locks_per_transaction":   "64",
	"wal_receiver_timeout":        "10s",
	"wal_sender_timeout":          "10s",
	"checkpoint_timeout":          "5min",
	"wal_retrieve_retry_interval": "500ms",
	"hot_standby_feedback":        "off",
	"log_min_messages":            "warning",
	"timezone":                    "UTC",
}

// logDefaults are the settings that keep the log of an engine within a part of its volume: at most a
// quarter for readers that are behind, and an eighth between two checkpoints. total is the size of the
// volume in bytes; 0: unknown, and large.
func logDefaults(total int64) map[string]string {
	if total <= 0 {
		total = 1 << 50
	}
	part := func(divisor, least, most int64) string {
		return strconv.FormatInt(min(max(total/divisor>>20, least), most), 10) + "MB"
	}
	return map[string]string{
		"max_wal_size":           part(8, 64, 1024),
		"min_wal_size":           part(32, 32, 80),
		"wal_keep_size":          part(32, 16, 256),
		"max_slot_wal_keep_size": part(4, 64, 4096),
	}
}

// fixed are settings on which the promises of this package depend.
var fixed = map[string]string{
	"hot_standby":                    "on",
	"wal_log_hints":                  "on",
	"fsync":                          "on",
	"full_page_writes":               "on",
	"synchronous_commit":             "on",
	"wal_receiver_status_interval":   "1s",
	"superuser_reserved_connections": "5",
	"recovery_target_timeline":       "latest",
	"password_encryption":            "scram-sha-256",
	"unix_socket_directories":        "../run", // the path may have any length, because the engine runs in its data directory
	"restart_after_crash":            "on",
	"logging_collector":              "off",
	"log_destination":                "stderr",
	"log_timezone":                   "UTC",
	"log_line_prefix":                enginelog.Prefix, // of which the agent makes JSON
}

// owned are the other settings that users must not set.
var owned = []string{
	"listen_addresses", "port", "data_directory", "config_file", "hba_file", "ident_file", "external_pid_file", "unix_socket_permissions", "unix_socket_group",
	"primary_conninfo", "primary_slot_name", "synchronous_standby_names", "cluster_name", "promote_trigger_file",
	"recovery_target", "recovery_target_action", "recovery_target_inclusive", "recovery_target_lsn", "recovery_target_name", "recovery_target_time", "recovery_target_xid",
	"restore_command", "recovery_end_command", "archive_cleanup_command", "archive_command", "archive_library", "archive_mode", "ssl_cert_file", "ssl_key_file", "include", "include_dir", "include_if_exists",
}

var parameterName = regexp.MustCompile(`^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*$`)

// checkParameters rejects settings that users must not set, and values of more than one line.
func checkParameters(params map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		_, isFixed := fixed[strings.ToLower(name)]
		switch {
		case !parameterName.MatchString(strings.ToLower(name)):
			return port.ParameterInvalid.Errorf("%q is no name of a parameter", name)
		case isFixed, slices.Contains(owned, strings.ToLower(name)):
			return port.ParameterInvalid.Errorf("%s is set by the operator", name)
		case strings.EqualFold(name, "wal_level") && params[name] != "replica" && params[name] != "logical":
			return port.ParameterInvalid.Errorf("wal_level is replica or logical, not %q: readers need one of them", params[name])
		case strings.EqualFold(name, "ssl") && !slices.Contains([]string{"on", "true", "yes", "1"}, strings.ToLower(params[name])):
			return port.ParameterInvalid.Errorf("ssl is on wherever the instances have a certificate, and cannot be %s", params[name])
		case strings.EqualFold(name, "ssl_min_protocol_version") && !slices.Contains([]string{"TLSv1.2", "TLSv1.3"}, params[name]):
			return port.ParameterInvalid.Errorf("ssl_min_protocol_version is TLSv1.2 or TLSv1.3")
		case strings.ContainsAny(params[name], "\n\r\x00"):
			return port.ParameterInvalid.Errorf("the value of %s is more than one line", name)
		}
	}
	return nil
}

// setup is everything that the configuration of an engine depends on.
type setup struct {
	Bind   string
	Port   int32
	Name   string            // of the instance
	Params map[string]string // desired
	Floors map[string]string // lower limits, of a follower and until the next start of a promoted one
	Sync   []string          // instances of which one must have each commit; nil: the engine waits for none

	Volume   int64     // size of the volume in bytes; 0: unknown
	Upstream *Upstream // the engine from which a follower receives; nil: none
	PassFile string

	Archive   string // archive_command
	HugePages bool   // the engine has huge pages

	LogicalSlots bool      // there is a logical slot
	Certificate  string    // hash of the certificate; empty: none
	TLS          [2]string // files of certificate and key
	Trust        string    // file with the authorities of the other engines; empty: they are not verified
	HBA          string    // text of pg_hba.conf

	ArchiveTimeout bool // a segment is archived after a while, even if it is not full
}

// configuration returns the text of postgresql.conf. Of equal names in the file the last one
// counts.
func configuration(s setup) string {
	values := maps.Clone(defaults)
	maps.Copy(values, logDefaults(s.Volume))
	if s.HugePages {
		values["huge_pages"] = "on" // with try, an engine that does not fit into them would not say so
	}
	for name, value := range s.Params {
		values[strings.ToLower(name)] = value
	}
	for name, floor := range s.Floors {
		if below(values[name], floor) {
			values[name] = floor
		}
	}
	if s.LogicalSlots {
		values["wal_level"] = "logical"
	}
	maps.Copy(values, fixed)
	values["listen_addresses"], values["port"] = s.Bind, strconv.Itoa(int(s.Port))
	values["cluster_name"] = s.Name
	values["archive_mode"], values["archive_command"] = "on", cmp.Or(s.Archive, pgbackrest.NoArchive)
	if s.ArchiveTimeout && values["archive_timeout"] == "" {
		values["archive_timeout"] = "60s"
	}
	values["ssl"] = "off"
	if s.Certificate != "" {
		values["ssl"], values["ssl_cert_file"], values["ssl_key_file"] = "on", s.TLS[0], s.TLS[1]
	}
	values["synchronous_standby_names"] = standbyNames(s.Sync)
	values["primary_conninfo"], values["primary_slot_name"] = "", ""
	if s.Upstream != nil {
		values["primary_conninfo"] = s.Upstream.conninfo(s.Name, s.PassFile, s.Trust)
		values["primary_slot_name"] = slotName(s.Name)
	}
	var b strings.Builder
	b.WriteString("# Written by pawl instance. Parameters are set in the spec of the cluster.\n")
	if s.Certificate != "" {
		fmt.Fprintf(&b, "# Certificate %s\n", s.Certificate) // so that another one is another text, and the engine reads it
	}
	fmt.Fprintf(&b, "# Logins %s\n", short(s.HBA)) // likewise
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, confQuoter.Replace(values[name]))
	}
	return b.String()
}

var confQuoter = strings.NewReplacer(`'`, `''`, `\`, `\\`)

// below compares whole numbers. It leaves other values to the engine, and an unset value, too,
// because the engine's default is unknown here.
func below(value, floor string) bool {
	f, err := strconv.ParseInt(floor, 10, 64)
	if err != nil {
		return false
	}
	if value == "" {
		return true
	}
	v, err := strconv.ParseInt(strings.TrimSpace(value), 0, 64)
	return err == nil && v < f
}

// standbyNames returns the value of synchronous_standby_names.
func standbyNames(names []string) string {
	if len(names) == 0 {
		return ""
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	return "ANY 1 (" + strings.Join(quoted, ",") + ")"
}

// slotName returns the replication slot of an instance: lower case, at most 63 bytes, and unique
// per instance.
func slotName(instance string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(instance) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
	}
	text := b.String()
	return slotPrefix + text[:min(len(text), 40)] + "_" + short(instance)
}

const slotPrefix = "pawl_"

// Upstream is an engine from which a follower receives.
type Upstream struct {
	Name string `json:"name"`
	Host string `json:"host"`
	Port int32  `json:"port"`
}

// conninfo returns how to connect to an engine. trust is the file with the authorities of its certificate; empty:
// it is not verified.
func (u Upstream) conninfo(application, passFile, trust string) string {
	return fmt.Sprintf("host=%s port=%d user=%s application_name=%s passfile=%s connect_timeout=5 keepalives_idle=5 keepalives_interval=2 keepalives_count=3 %s",
		connQuote(u.Host), u.Port, superuser, connQuote(application), connQuote(passFile), sslmode(trust))
}

// sslmode returns how to verify another engine of the cluster. Its name is not verified: the address of a pod
// is not known when the certificate is made, and the authority signs for one cluster only.
func sslmode(trust string) string {
	if trust == "" {
		return "sslmode=prefer"
	}
	return "sslmode=verify-ca sslrootcert=" + connQuote(trust)
}

func connQuote(value string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
}

const superuser = "postgres"

// hba returns a pg_hba.conf that lets the superuser of the data directory log in through the socket, which is in a folder
// of its own, and everybody else with a password, and only over TLS if that is required.
func hba(requireTLS bool) string {
	over := "host"
	if requireTLS {
		over = "hostssl"
	}
	return "# Written by pawl instance.\nlocal all all trust\n" + over + " all all all scram-sha-256\n" + over + " replication all all scram-sha-256\n"
}

func (u Upstream) address() string { return fmt.Sprintf("%s:%d", u.Host, u.Port) }
