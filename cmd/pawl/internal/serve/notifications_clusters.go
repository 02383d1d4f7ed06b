package serve

import (
	"context"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/notification"
)

// clusterEvents are the events of container clusters that notifications tell of.
type clusterEvents struct {
	store interface {
		Events(ctx context.Context, q cluster.EventQuery) ([]cluster.Event, error)
		Feed(ctx context.Context) (floor, newest int64, err error)
		List(ctx context.Context, q cluster.ClusterQuery) (clusters []cluster.Cluster, total int, err error)
	}
}

// Events implements notification.Source.
func (s clusterEvents) Events(ctx context.Context, cursor string, limit int) (events []notification.Event, next string, err error) {
	if cursor == "now" {
		_, newest, err := s.store.Feed(ctx)
		return nil, strconv.FormatInt(newest, 10), err
	}
	after, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil {
		return nil, "", err
	}
	all := cluster.Scope{All: true}
	page, err := s.store.Events(ctx, cluster.EventQuery{Scope: all, After: after, Types: []string{"cluster"}, Limit: limit})
	if err != nil {
		return nil, "", err
	}
	for i := range page {
		after = page[i].Seq
		e, told := clusterEventOf(&page[i])
		if !told {
			continue
		}
		found, _, err := s.store.List(ctx, cluster.ClusterQuery{Scope: all, UUID: page[i].Cluster, WithDestroyed: true, Limit: 1})
		if err != nil {
			return nil, "", err
		}
		if len(found) == 1 {
			e.Message = strings.TrimSuffix(found[0].Name+": "+e.Message, ": ")
		}
		events = append(events, e)
	}
	return events, strconv.FormatInt(after, 10), nil
}

func clusterEventOf(c *cluster.Event) (e notification.Event, told bool) {
	e = notification.Event{Time: c.At.UTC(), Run: c.RunID, Seq: c.Seq, Subject: cluster.SubjectKind + "/default/" + c.Cluster, Actor: c.Actor}
	switch {
	case c.State == string(cluster.Alert) && c.From != c.State:
		e.Type, e.Code, e.Message, e.Step = notification.ClusterAlert, string(c.Reason.Code), c.Reason.Text, c.Reason.Step
	case c.From == string(cluster.Recovering) && c.State == string(cluster.Running):
		e.Type = notification.ClusterRecovered
	default:
		return e, false
	}
	return e, true
}
