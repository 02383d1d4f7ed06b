package postgres

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/view"
)

// Text returns the screen. now zero: without ages.
func (s Status) Text(now time.Time) string {
	age := func(at time.Time) string {
		if at.IsZero() || now.IsZero() {
			return ""
		}
		return view.Age(now.Sub(at))
	}
	var b strings.Builder
	fact := func(name, format string, args ...any) {
		if text := strings.TrimSpace(fmt.Sprintf(format, args...)); text != "" {
			fmt.Fprintf(&b, "%-8s  %s\n", name, text)
		}
	}
	fact("Cluster", "%s", s.Cluster)
	fact("State", "%s  %s", s.State, age(s.Since))
	if w := s.Writer; w != nil {
		fact("Writer", "%s  %s  on %s  at %s", w.ID, w.Name, cmp.Or(w.Node, "?"), w.Address)
	} else {
		fact("Writer", "none takes writes")
	}
	if len(s.Instances) > 0 {
		fact("Engine", "PostgreSQL %s  class %s  durability %s%s", cmp.Or(s.Version, "of several versions"), cmp.Or(s.Class, "changing"), s.Durability, s.connections())
	}
	fact("Storage", "%s", s.storage())
	fact("Failover", "%s", s.failover())
	fact("Archive", "%s", s.archive(age))
	fact("Database", "%s", s.databases())
	fact("Users", "%s", s.users())
	if r := s.Run; r != nil {
		fact("Run", "%s  %s  %s", view.Short(r.ID), r.Flow, strings.Join(nonEmpty(r.Phase, "at "+r.Step, r.Progress), ", "))
		fact("", "%s", r.Message)
	} else if s.moving {
		fact("Doing", "%s", s.Progress)
	}
	for _, r := range s.Requests {
		fact("Request", "%s %s  %s", r.Kind, r.Args, r.State)
	}
	section := func(name string, t view.Table) {
		if len(t.Rows) > 0 {
			b.WriteString("\n" + name + "\n")
			for line := range strings.Lines(t.String()) {
				b.WriteString("  " + line)
			}
		}
	}
	section("Instances", s.instanceTable(age))
	section("Poolers", s.poolerTable())
	section("Slots", s.slotTable())
	section("Subscriptions", s.subscriptionTable())
	if s.Unasked != "" {
		fmt.Fprintf(&b, "\nThe writer was not asked for lag, slots and archive: %s\n", s.Unasked)
	}
	if len(s.WhyNot) > 0 {
		b.WriteString("\nWhy not\n")
	}
	for _, f := range s.WhyNot {
		fmt.Fprintf(&b, "  %s\n    %s\n", strings.TrimSpace(f.What+"  "+f.Reason+"  "+age(f.Since)), f.Message)
		if f.Remedy != "" {
			fmt.Fprintf(&b, "    remedy: %s\n", f.Remedy)
		}
	}
	return b.String()
}

func nonEmpty(texts ...string) (all []string) {
	for _, text := range texts {
		if text != "" && text != "at " {
			all = append(all, text)
		}
	}
	return all
}

func (s Status) connections() string {
	if s.MaxConnections == 0 {
		return ""
	}
	return fmt.Sprintf("  %d of %d connections", s.Connections, s.MaxConnections)
}

// databases lists the databases with their owners.
func (s Status) databases() string {
	var all []string
	for _, d := range s.Databases.Databases {
		all = append(all, d.Name+" of "+d.Owner)
	}
	return brief(all)
}

// users lists the users; those that are superusers are named as such.
func (s Status) users() string {
	var all []string
	for _, u := range s.Databases.Users {
		if u.Superuser {
			u.Name += " (superuser)"
		}
		all = append(all, u.Name)
	}
	return brief(all)
}

// brief joins the first names of a list.
func brief(names []string) string {
	const most = 8
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

func (s Status) storage() string {
	size := cmp.Or(s.Size, "of the default size")
	if s.Storage.Size != nil {
		if is := s.Storage.Size.String(); is != s.Size && s.Size != "" {
			size = is + ", " + s.Size + " wanted"
		} else {
			size = is
		}
	}
	return strings.Join(nonEmpty(size, cmp.Or(s.Storage.Claim, s.Storage.Volume)), "  ")
}

func (s Status) failover() string {
	m := s.Manager
	switch {
	case m.Health == "":
		return "there is no cluster manager"
	case m.HA == nil:
		return "the cluster manager is " + m.Health
	case !*m.HA && !m.Until.IsZero():
		return "off until " + m.Until.UTC().Format("15:04:05 MST")
	case !*m.HA:
		return "off"
	}
	for _, f := range s.WhyNot {
		if f.What == "HighAvailability" {
			return "on, and none is possible: " + f.Reason
		}
	}
	return "on"
}

func (s Status) archive(age func(time.Time) string) string {
	a := s.Archive
	switch {
	case a == nil:
		return ""
	case a.Mode == "off":
		return "none: no log is archived"
	case a.LastAt == nil:
		return "on, nothing is archived yet"
	}
	return fmt.Sprintf("on, last %s  %s", a.Last, age(*a.LastAt))
}

func (s Status) instanceTable(age func(time.Time) string) view.Table {
	t := view.Table{Head: []string{"ID", "ROLE", "HEALTH", "SINCE", "NODE", "ADDRESS", "VERSION", "STREAMS", "LAG", "BEHIND", "NAME"}}
	for _, i := range s.Instances {
		streams, lag, behind := i.Streaming, "–", "–"
		if i.Sync == "quorum" || i.Sync == "sync" {
			streams += ", sync"
		}
		if i.LagBytes != nil {
			lag = bytesText(*i.LagBytes)
		}
		if i.LagSeconds != nil {
			behind = strconv.FormatFloat(*i.LagSeconds, 'f', 1, 64) + "s"
		} else if i.LagBytes != nil && *i.LagBytes == 0 {
			behind = "0.0s"
		}
		if i.Role == string(port.Writer) {
			streams, lag, behind = "–", "–", "–"
		}
		t.Rows = append(t.Rows, []string{i.ID, i.Role, i.Health, cmp.Or(age(i.Since), "–"), cmp.Or(i.Node, "–"), cmp.Or(i.Address, "–"), cmp.Or(i.Version, "–"), cmp.Or(streams, "–"), lag, behind,
			strings.TrimSpace(i.Name + "  " + i.Message)})
	}
	return t
}

func (s Status) subscriptionTable() view.Table {
	t := view.Table{Head: []string{"SUBSCRIPTION", "DATABASE", "STATE", "LAG", "ERRORS"}}
	for _, one := range s.Subscriptions {
		lag := "–"
		if one.LagBytes != nil {
			lag = bytesText(*one.LagBytes)
		}
		t.Rows = append(t.Rows, []string{one.Name, one.Database, one.State, lag, strconv.FormatInt(one.Errors, 10)})
	}
	return t
}

func (s Status) poolerTable() view.Table {
	t := view.Table{Head: []string{"POOLER", "HEALTH", "ADDRESS", "WRITER"}}
	for _, p := range s.Poolers {
		address := "–"
		if p.Address != "" {
			address = net.JoinHostPort(p.Address, strconv.Itoa(int(p.Port)))
		}
		t.Rows = append(t.Rows, []string{p.Name, p.Health, address, strings.TrimSpace(cmp.Or(p.Writer, "–") + "  " + p.Message)})
	}
	return t
}

func (s Status) slotTable() view.Table {
	t := view.Table{Head: []string{"SLOT", "FOR", "ACTIVE", "LOG", "KEPT"}}
	for _, slot := range s.Slots {
		active := "no"
		if slot.Active {
			active = "yes"
		}
		t.Rows = append(t.Rows, []string{slot.Name, cmp.Or(slot.Instance, "–"), active, cmp.Or(slot.WAL, "–"), bytesText(slot.RetainedBytes)})
	}
	return t
}

func bytesText(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	case n < 1<<30:
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
	}
	return strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64) + " GiB"
}
