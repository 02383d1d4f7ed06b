package sqlstore

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Channels of NOTIFY. Both only shorten waits.
const (
	runChannel    = "pawl"        // payload: the id of a run, or "" for any
	changeChannel = "pawl_change" // an object has changed
)

// listen turns notifications into hints until the store is closed. After a
// break anything may have happened, so everybody is woken.
func (p *Postgres) listen() {
	for p.ctx.Err() == nil {
		p.listenOnce()
		p.wake.notify("")
		p.changed.notify()
		select {
		case <-time.After(reconnectDelay):
		case <-p.ctx.Done():
		}
	}
}

func (p *Postgres) listenOnce() {
	c, err := pgx.ConnectConfig(p.ctx, p.config)
	if err != nil {
		return
	}
	defer closeConn(c)
	if _, err := c.Exec(p.ctx, "LISTEN "+runChannel+"; LISTEN "+changeChannel, pgx.QueryExecModeSimpleProtocol); err != nil {
		return
	}
	p.wake.notify("")
	p.changed.notify()
	for {
		n, err := p.notification(c)
		if err != nil {
			return
		}
		if n == nil {
			continue
		}
		if strings.EqualFold(n.Channel, changeChannel) {
			p.changed.notify()
		} else {
			p.wake.notify(n.Payload)
		}
	}
}

// listenFor is how long silence is believed: then the server is asked for a sign of life.
const listenFor = 15 * time.Second

// notification gives the next one, or nil after a while in which there was
// none, or when the guard has asked for a search.
func (p *Postgres) notification(c *pgx.Conn) (n *pgconn.Notification, err error) {
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

// closeConn says goodbye without waiting long for an answer.
func closeConn(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}
