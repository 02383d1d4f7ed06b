package sharedstorage

import "time"

// order is the last stop or start of the writer that a run ordered before a switch. It lives in
// this process only; after a restart the run waits as long as at first.
type order struct {
	at     time.Time // time of the last order
	starts int       // number of starts so far
}

// ordered records an order that is given now.
func (w *work) ordered(start bool) {
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	last := w.o.orders[w.t.RunID()]
	if last.at = w.o.now(); start {
		last.starts++
	}
	w.o.orders[w.t.RunID()] = last
}

func (w *work) lastOrder() (last order, known bool) {
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	last, known = w.o.orders[w.t.RunID()]
	return last, known
}

// sinceOrder returns the time since the last order; if none is known, the time the step has
// waited.
func (w *work) sinceOrder() time.Duration {
	if last, known := w.lastOrder(); known {
		return w.o.now().Sub(last.at)
	}
	return w.waited()
}

// forgetOrders drops the orders of a switch that has ended or gives up.
func (w *work) forgetOrders() {
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	delete(w.o.orders, w.t.RunID())
}
