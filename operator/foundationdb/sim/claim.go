package sim

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claimProtection keeps a claim while a pod uses it.
const claimProtection = "kubernetes.io/pvc-protection"

// claimsOf returns the claims that a pod uses.
func claimsOf(p *corev1.Pod) []name {
	var claims []name
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims = append(claims, name{p.Namespace, v.PersistentVolumeClaim.ClaimName})
		}
	}
	return claims
}

// claim counts a pod among the users of its claims, or no longer.
func (w *World) claim(p *corev1.Pod, uses bool) {
	for _, c := range claimsOf(p) {
		if uses {
			if w.claimants[c] == nil {
				w.claimants[c] = map[types.UID]bool{}
			}
			w.claimants[c][p.UID] = true
			continue
		}
		if delete(w.claimants[c], p.UID); len(w.claimants[c]) == 0 {
			delete(w.claimants, c)
			w.reconcileClaim(c)
		}
	}
}

// missingClaim says which claim of a pod is not there, or goes; empty: none.
func (w *World) missingClaim(p *corev1.Pod) string {
	for _, n := range claimsOf(p) {
		switch c := get[*corev1.PersistentVolumeClaim](w.store, n); {
		case c == nil:
			return "persistentvolumeclaim " + n.name + " not found"
		case c.DeletionTimestamp != nil:
			return "persistentvolumeclaim " + n.name + " is being deleted"
		}
	}
	return ""
}

// reconcileClaim binds a claim that a pod with a node wants, grows its volume, and lets go of one that is deleted and
// not used.
func (w *World) reconcileClaim(n name) {
	c := get[*corev1.PersistentVolumeClaim](w.store, n)
	if c == nil {
		return
	}
	uid := c.UID
	current := func() *corev1.PersistentVolumeClaim {
		if c := get[*corev1.PersistentVolumeClaim](w.store, n); c != nil && c.UID == uid {
			return c
		}
		return nil
	}
	switch {
	case c.DeletionTimestamp != nil:
		if len(w.claimants[n]) > 0 || !slices.Contains(c.Finalizers, claimProtection) || w.hit(FaultClaimStuck, "", "PersistentVolumeClaim", n.name) != nil {
			return
		}
		update(w.store, c, func(c *corev1.PersistentVolumeClaim) {
			c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == claimProtection })
		})
		if c := current(); c != nil {
			w.store.finalized(c, w.deleters[uid])
		}
	case c.Status.Phase != corev1.ClaimBound:
		if w.binding[uid] || !w.wanted(n) || w.hit(FaultClaimUnbound, "", "PersistentVolumeClaim", n.name) != nil {
			return
		}
		w.binding[uid] = true
		w.after(w.options.Times.Bind, func() {
			delete(w.binding, uid)
			if c := current(); c != nil && c.DeletionTimestamp == nil {
				update(w.store, c, func(c *corev1.PersistentVolumeClaim) {
					c.Spec.VolumeName = "pvc-" + string(uid)
					c.Status.Phase, c.Status.AccessModes = corev1.ClaimBound, c.Spec.AccessModes
					c.Status.Capacity = maps.Clone(c.Spec.Resources.Requests)
				})
				w.bound(n)
			}
		})
	default:
		wants, has := c.Spec.Resources.Requests[corev1.ResourceStorage], c.Status.Capacity[corev1.ResourceStorage]
		if wants.Cmp(has) > 0 && !w.binding[uid] {
			w.binding[uid] = true
			w.after(w.options.Times.Bind, func() {
				delete(w.binding, uid)
				if c := current(); c != nil {
					update(w.store, c, func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = maps.Clone(c.Spec.Resources.Requests) })
				}
			})
		}
	}
}

// wanted reports whether a pod with a node uses a claim.
func (w *World) wanted(n name) bool {
	for uid := range w.claimants[n] {
		if p := w.pods[uid]; p != nil && p.node != "" {
			return true
		}
	}
	return false
}

// bound starts the pods that have waited for a claim.
func (w *World) bound(n name) {
	users := map[types.UID]*pod{}
	for uid := range w.claimants[n] {
		if p := w.pods[uid]; p != nil && p.node != "" {
			users[uid] = p
		}
	}
	for _, p := range sorted(users) {
		w.boot(p)
	}
}
