package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/store/sql/db"
)

// RunChannel is the channel of NOTIFY for runs. Its payload is the id of a run, or "" for any
// run. Notifications only shorten waits: a lost one does no harm.
const RunChannel = "pawl"

// listen turns notifications into wake-ups until the store is closed. After a lost
// connection it wakes everything, because notifications may be missing.
func (p *DB) listen() {
	for p.ctx.Err() == nil {
		p.listenOnce()
		p.Waker.Notify("")
		p.changed.Notify()
		select {
		case <-time.After(reconnectDelay):
		case <-p.ctx.Done():
		}
	}
}

func (p *DB) listenOnce() {
	c, err := pgx.ConnectConfig(p.ctx, p.Config)
	if err != nil {
		return
	}
	defer CloseConn(c)
	if _, err := c.Exec(p.ctx, "LISTEN "+RunChannel+"; LISTEN "+db.ChangeChannel, pgx.QueryExecModeSimpleProtocol); err != nil {
		return
	}
	p.Waker.Notify("")
	p.changed.Notify()
	for {
		n, err := p.notification(c)
		if err != nil {
			return
		}
		if n == nil {
			continue
		}
		if strings.EqualFold(n.Channel, db.ChangeChannel) {
			p.changed.Notify()
		} else {
			p.Waker.Notify(n.Payload)
		}
	}
}

// listenFor is how long the listener waits for a notification before it pings the
// server.
const listenFor = 15 * time.Second

// notification returns the next notification; nil after listenFor without one, or after
// the guard has requested a search.
func (p *DB) notification(c *pgx.Conn) (n *pgconn.Notification, err error) {
	p.silentSearch.run(p.ctx, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, listenFor)
		defer cancel()
		if n, err = c.WaitForNotification(ctx); err != nil && ctx.Err() != nil {
			n, err = nil, nil
		}
	})
	if n != nil || err != nil {
		return n, err
	}
	alive, cancel := context.WithTimeout(p.ctx, guardWithin)
	defer cancel()
	if p.silentSearch.takeRequest() {
		_, err = c.Exec(alive, silentSQL)
	} else {
		err = c.Ping(alive)
	}
	return nil, err
}

// CloseConn closes a connection and waits at most a second for the server.
func CloseConn(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}
