package sim

import (
	"errors"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// transact runs the commands about keys. Source: foundationdb 7.3.69, fdbcli/fdbcli.actor.cpp, cli.
func (t *cli) transact(words []string) poll {
	switch words[0] {
	case "option":
		return immediately(func() { t.option(words) })
	case "writemode":
		return immediately(func() {
			if len(words) != 2 || words[1] != "on" && words[1] != "off" {
				t.usage("writemode <on|off>")
				return
			}
			t.writes = words[1] == "on"
		})
	case "begin":
		return immediately(func() {
			switch {
			case len(words) != 1:
				t.usage("begin")
			case t.inTr:
				t.fail("ERROR: Already in transaction\n")
			default:
				t.trOptions = maps.Clone(t.options)
				t.inTr, t.tr = true, nil
				t.print("Transaction started\n")
			}
		})
	case "commit":
		return t.commit(words)
	case "reset", "rollback":
		return immediately(func() {
			switch {
			case len(words) != 1:
				t.usage(words[0])
			case !t.inTr:
				t.fail("ERROR: No active transaction\n")
			case words[0] == "reset":
				t.tr = nil
				t.trOptions = maps.Clone(t.options)
				t.print("Transaction reset\n")
			default:
				t.tr, t.inTr = nil, false
				t.print("Transaction rolled back\n")
			}
		})
	case "get", "getrange", "getrangekeys":
		return t.read(words)
	default:
		return t.write(words)
	}
}

// option switches an option of all transactions, or of the one that has begun.
func (t *cli) option(words []string) {
	if len(words) < 3 || words[1] != "on" && words[1] != "off" {
		t.usage("option <STATE> <OPTION> <ARG>")
		return
	}
	name := strings.ToUpper(words[2])
	switch name {
	case "READ_SYSTEM_KEYS", "ACCESS_SYSTEM_KEYS", "LOCK_AWARE", "PRIORITY_SYSTEM_IMMEDIATE", "TIMEOUT", "RETRY_LIMIT":
	default:
		t.fail("ERROR: invalid option `%s'. Try `help options' for a list of available options.\n", words[2])
		return
	}
	options, scope := &t.options, "all transactions"
	if t.inTr {
		options, scope = &t.trOptions, "current transaction"
	}
	if *options == nil {
		*options = map[string]bool{}
	}
	(*options)[name] = words[1] == "on"
	t.print("Option %s for %s\n", map[string]string{"on": "enabled", "off": "disabled"}[words[1]], scope)
}

// transaction returns the one that has begun, or a new one.
func (t *cli) transaction() *Transaction {
	options := t.options
	if t.inTr {
		options = t.trOptions
		if t.tr != nil {
			t.tr.LockAware = options["LOCK_AWARE"]
			return t.tr
		}
	}
	tr := t.c.Transaction()
	tr.LockAware = options["LOCK_AWARE"]
	if t.inTr {
		t.tr = tr
	}
	return tr
}

// legal tells whether the options allow a key: those of the system need one.
func (t *cli) legal(end string, writing bool) bool {
	options := t.options
	if t.inTr {
		options = t.trOptions
	}
	switch {
	case end <= "\xff":
		return true
	case writing:
		return options["ACCESS_SYSTEM_KEYS"]
	default:
		return options["ACCESS_SYSTEM_KEYS"] || options["READ_SYSTEM_KEYS"]
	}
}

// thrown prints an error of the database; a transaction that has begun is rolled back.
func (t *cli) thrown(err error) {
	t.fail("ERROR: %s\n", err)
	if t.inTr {
		t.print("Rolling back current transaction\n")
		t.inTr, t.tr = false, nil
	}
}

// attempt does something that fails with ErrBlocked until it can be done.
func (t *cli) attempt(do func() error) poll {
	return func() (time.Duration, bool) {
		if !t.connected() {
			return 200 * time.Millisecond, false
		}
		err := do()
		if errors.Is(err, ErrBlocked) {
			return 200 * time.Millisecond, false
		}
		if err != nil {
			t.thrown(err)
		}
		return 0, true
	}
}

func (t *cli) read(words []string) poll {
	limit := 25
	r := fdb.Range{}
	switch {
	case words[0] == "get" && len(words) == 2:
		r = fdb.SingleKey(words[1])
	case words[0] != "get" && len(words) >= 2 && len(words) <= 4:
		r = fdb.PrefixRange(words[1])
		if words[1] == "" {
			r.End = "\xff"
		}
		if len(words) > 2 {
			r.End = words[2]
		}
		if len(words) == 4 {
			n, err := strconv.Atoi(words[3])
			if err != nil || n < 0 || len(words[3]) > 9 {
				return immediately(func() { t.fail("ERROR: bad limit\n") })
			}
			limit = n
		}
	default:
		return immediately(func() { t.usage(words[0] + " <KEY>") })
	}
	return t.attempt(func() error {
		if !t.legal(r.End, false) && r.Begin != "\xff" {
			return ErrOutOfRange
		}
		found, err := t.transaction().GetRange(r, limit)
		if err != nil {
			return err
		}
		if words[0] == "get" {
			t.printGet(words[1], found)
			return nil
		}
		t.print("\nRange limited to %d keys\n", limit)
		for _, kv := range found {
			if words[0] == "getrangekeys" {
				t.print("`%s'\n", printable(kv.Key))
			} else {
				t.print("`%s' is `%s'\n", printable(kv.Key), printable(string(kv.Value)))
			}
		}
		t.print("\n")
		return nil
	})
}

// printGet prints one key. The connection string is a key of the system.
func (t *cli) printGet(key string, found fdb.Values) {
	switch {
	case key == "\xff/coordinators":
		t.print("`%s' is `%s'\n", printable(key), printable(t.c.coordination.connection.String()))
	case len(found) == 0:
		t.print("`%s': not found\n", printable(key))
	default:
		t.print("`%s' is `%s'\n", printable(key), printable(string(found[0].Value)))
	}
}

func (t *cli) write(words []string) poll {
	var w fdb.Write
	end := ""
	switch {
	case !t.writes:
		return immediately(func() { t.fail("ERROR: writemode must be enabled to set or clear keys in the database.\n") })
	case words[0] == "set" && len(words) == 3:
		w, end = fdb.Set(words[1], []byte(words[2])), words[1]
	case words[0] == "clear" && len(words) == 2:
		w, end = fdb.Clear(fdb.SingleKey(words[1])), words[1]
	case words[0] == "clearrange" && len(words) == 3:
		w, end = fdb.Clear(fdb.Range{Begin: words[1], End: words[2]}), words[2]
	default:
		return immediately(func() { t.usage(words[0]) })
	}
	return t.attempt(func() error {
		if !t.legal(end, true) {
			return ErrOutOfRange
		}
		tr := t.transaction()
		tr.Write(w)
		if t.inTr {
			return nil
		}
		return t.committed(tr)
	})
}

func (t *cli) commit(words []string) poll {
	if len(words) != 1 {
		return immediately(func() { t.usage("commit") })
	}
	if !t.inTr {
		return immediately(func() { t.fail("ERROR: No active transaction\n") })
	}
	return t.attempt(func() error {
		if err := t.committed(t.transaction()); err != nil {
			return err
		}
		t.inTr, t.tr = false, nil
		return nil
	})
}

// committed commits and prints the version.
func (t *cli) committed(tr *Transaction) error {
	wrote := len(tr.writes) > 0
	if err := tr.Commit(); err != nil {
		return err
	}
	if wrote {
		t.print("Committed (%d)\n", t.c.keys.last)
	} else {
		t.print("Nothing to commit\n")
	}
	return nil
}
