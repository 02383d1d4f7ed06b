package sandbox

import (
	"context"
	"testing"
	"time"
)

func TestTiming(t *testing.T) {
	s := New(Options{})
	made, left, err := s.Apply(t.Context(), Example)
	t.Log(made, left, err)
	for i := 0; i < 40; i++ {
		start := time.Now()
		s.Skip(context.Background(), 10*time.Second)
		q := query{kind: kinds[8], namespace: "default", name: "orders"}
		o, err := s.stored(q)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s real %s %v %+v", s.Now().Format(time.TimeOnly), time.Since(start), columns[clusterKind][6].text(o), columns[clusterKind][1].text(o))
	}
}
