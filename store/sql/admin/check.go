package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/clusters"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/runs"
	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// Report is the result of Check.
type Report struct {
	Runs     int      `json:"runs"`
	Events   int      `json:"events"`
	Clusters int      `json:"clusters"`
	Damage   []Damage `json:"damage,omitempty"`
	Healthy  bool     `json:"healthy"`
	Keys     []string `json:"encryptedWith,omitempty"` // ids of the master keys that encrypted its secrets
}

// Damage is one damaged record.
type Damage struct {
	Run  string `json:"run,omitempty"` // empty: the file itself
	What string `json:"what"`
}

func (r *Report) add(what string) { r.Damage = append(r.Damage, Damage{What: what}) }

// Check reads one snapshot of the whole store and reports damage. It writes nothing.
func (a *Admin) Check(ctx context.Context) (Report, error) {
	var report Report
	err := a.db.Inspect(ctx, func(x db.Session) error {
		err := a.db.Integrity(x, report.add)
		if err != nil {
			return err
		}
		if report.Keys, err = encryptedWith(x); err != nil {
			return err
		}
		if known, err := x.HasTable("container_cluster"); err != nil {
			return err
		} else if known {
			if err := checkRecords(x, &report); err != nil && !a.db.IsDamage(err) {
				return err
			} else if err != nil {
				report.add("clusters: " + fault.Message(err))
			}
		}
		return a.runs.EachRun(x, a.db.IsDamage, func(id string, d runs.Dump, damage error) error {
			report.Runs++
			report.Events += len(d.Events)
			if damage != nil {
				report.Damage = append(report.Damage, Damage{Run: id, What: fault.Message(damage)})
			}
			return ctx.Err()
		})
	})
	if errors.Is(err, runstore.StoreCorrupt) {
		report.add(fault.Message(err))
		err = nil
	}
	report.Healthy = err == nil && len(report.Damage) == 0
	return report, err
}

// checkRecords reads all cluster tables. Of secrets it checks only the envelope.
func checkRecords(s db.Session, report *Report) error {
	note := func(what string, err error) {
		if err != nil {
			report.Damage = append(report.Damage, Damage{What: what + ": " + fault.Message(err)})
		}
	}
	var err error
	if report.Clusters, err = clusters.Check(s, note); err != nil {
		return err
	}
	for _, t := range encryptedTables {
		sql := fmt.Sprintf("SELECT %s, %s FROM %s ORDER BY %s", t.idColumn, strings.Join(t.columns, ", "), t.name, t.idColumn)
		if err := s.Query(sql, nil, func(r db.Row) error {
			for i, column := range t.columns {
				if encrypted := r.Bytes(i + 1); len(encrypted) > 0 && !secrets.IsEncrypted(encrypted) {
					note(secrets.Location(t.name, column, r.Text(0)), runstore.StoreCorrupt.Errorf("this is not an encrypted secret"))
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
