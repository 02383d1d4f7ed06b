package kube

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestWritten(t *testing.T) {
	now := time.Unix(0, 0)
	pod := func(version string, uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", ResourceVersion: version, UID: uid}}
	}
	var w *written
	begin := func() { w = &written{now: func() time.Time { return now }} }
	missing := func(cached *corev1.Pod, found bool) bool {
		_, behind := w.missing(cached, found)
		return behind
	}
	for name, c := range map[string]struct {
		write  func()
		cached *corev1.Pod
		found  bool
		want   bool
	}{
		"nothing was written":         {func() {}, pod("9", "u"), true, false},
		"the cache has it":            {func() { w.stored(pod("10", "u"), false) }, pod("10", "u"), true, false},
		"the cache has a newer one":   {func() { w.stored(pod("9", "u"), false) }, pod("10", "u"), true, false},
		"the cache has an older one":  {func() { w.stored(pod("10", "u"), false) }, pod("9", "u"), true, true},
		"the cache has none yet":      {func() { w.stored(pod("10", "u"), false) }, pod("", ""), false, true},
		"versions that say nothing":   {func() { w.stored(pod("x", "u"), false) }, pod("y", "u"), true, true},
		"a deletion it does not have": {func() { w.gone(pod("10", "u")) }, pod("10", "u"), true, true},
		"a deletion it has":           {func() { w.gone(pod("10", "u")) }, pod("", ""), false, false},
		"another object by now":       {func() { w.gone(pod("10", "u")) }, pod("11", "v"), true, false},
		"a write of long ago":         {func() { w.stored(pod("10", "u"), false); now = now.Add(writtenAge + 1) }, pod("9", "u"), true, false},
	} {
		begin()
		c.write()
		if got := missing(c.cached, c.found); got != c.want {
			t.Errorf("%s: missing is %v", name, got)
		}
	}
	begin()
	leaving := pod("11", "u")
	leaving.DeletionTimestamp = new(metav1.Now())
	w.gone(pod("10", "u"))
	if missing(leaving, true) {
		t.Error("a deletion that takes its time is in the cache")
	}
	if missing(pod("10", "u"), true) {
		t.Error("a cache that had it once is asked about it again")
	}

	begin()
	w.stored(pod("10", "u"), true)
	if kept := w.content(pod("10", "u")); kept == nil || kept.GetResourceVersion() != "10" {
		t.Errorf("kept is %v", kept)
	}
	if w.content(pod("9", "u")) != nil {
		t.Error("an older version was not kept")
	}

	// What is never read again does not stay.
	begin()
	for n := range 3 * writtenMany {
		now = now.Add(writtenAge / 100)
		p := pod("1", "u")
		p.Name = fmt.Sprint(n)
		w.stored(p, false)
	}
	if len(w.writes) > writtenMany+1 {
		t.Errorf("%d writes are remembered", len(w.writes))
	}
}
