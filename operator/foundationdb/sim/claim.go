package sim

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claimProtection keeps a claim while a pod uses it.
const claimProtection = "kubernetes.io/pvc-protection"

// claims binds claims, grows their volumes and lets them go.
type claims struct {
	w        *World
	users    map[name]map[types.UID]bool   // pods that use a claim
	binding  map[types.UID]bool            // claims that are being bound or grown
	deleters map[types.UID]string          // on whose behalf claims are deleted
	folders  map[types.UID]map[string]bool // data folders of a claim, or of a pod without one
}

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

// count counts a pod among the users of its claims, or no longer.
func (cs *claims) count(p *corev1.Pod, uses bool) {
	for _, c := range claimsOf(p) {
		if uses {
			if cs.users[c] == nil {
				cs.users[c] = map[types.UID]bool{}
			}
			cs.users[c][p.UID] = true
			continue
		}
		if delete(cs.users[c], p.UID); len(cs.users[c]) == 0 {
			delete(cs.users, c)
			cs.reconcile(c)
		}
	}
}

// missing says which claim of a pod is not there, or goes; empty: none.
func (cs *claims) missing(p *corev1.Pod) string {
	for _, n := range claimsOf(p) {
		switch c := get[*corev1.PersistentVolumeClaim](cs.w.store, n); {
		case c == nil:
			return "persistentvolumeclaim " + n.name + " not found"
		case c.DeletionTimestamp != nil:
			return "persistentvolumeclaim " + n.name + " is being deleted"
		}
	}
	return ""
}

// reconcile binds a claim that a pod with a node wants, grows its volume, and lets go of one that is deleted and
// not used.
func (cs *claims) reconcile(n name) {
	c := get[*corev1.PersistentVolumeClaim](cs.w.store, n)
	if c == nil {
		return
	}
	uid := c.UID
	current := func() *corev1.PersistentVolumeClaim {
		if c := get[*corev1.PersistentVolumeClaim](cs.w.store, n); c != nil && c.UID == uid {
			return c
		}
		return nil
	}
	switch {
	case c.DeletionTimestamp != nil:
		if len(cs.users[n]) > 0 || !slices.Contains(c.Finalizers, claimProtection) || cs.w.faults.hit(FaultClaimStuck, "", "PersistentVolumeClaim", n.name) != nil {
			return
		}
		update(cs.w.store, c, func(c *corev1.PersistentVolumeClaim) {
			c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == claimProtection })
		})
		if c := current(); c != nil {
			cs.w.store.finalized(c, cs.deleters[uid])
		}
	case c.Status.Phase != corev1.ClaimBound:
		if cs.binding[uid] || !cs.wanted(n) || cs.w.faults.hit(FaultClaimUnbound, "", "PersistentVolumeClaim", n.name) != nil {
			return
		}
		cs.binding[uid] = true
		cs.w.after(cs.w.options.Times.Bind, func() {
			delete(cs.binding, uid)
			if c := current(); c != nil && c.DeletionTimestamp == nil {
				update(cs.w.store, c, func(c *corev1.PersistentVolumeClaim) {
					c.Spec.VolumeName = "pvc-" + string(uid)
					c.Status.Phase, c.Status.AccessModes = corev1.ClaimBound, c.Spec.AccessModes
					c.Status.Capacity = maps.Clone(c.Spec.Resources.Requests)
				})
				cs.bound(n)
			}
		})
	default:
		wants, has := c.Spec.Resources.Requests[corev1.ResourceStorage], c.Status.Capacity[corev1.ResourceStorage]
		if wants.Cmp(has) > 0 && !cs.binding[uid] {
			cs.binding[uid] = true
			cs.w.after(cs.w.options.Times.Bind, func() {
				delete(cs.binding, uid)
				if c := current(); c != nil {
					update(cs.w.store, c, func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = maps.Clone(c.Spec.Resources.Requests) })
				}
			})
		}
	}
}

// wanted reports whether a pod with a node uses a claim.
func (cs *claims) wanted(n name) bool {
	for uid := range cs.users[n] {
		if p := cs.w.kubelet.pods[uid]; p != nil && p.node != "" {
			return true
		}
	}
	return false
}

// bound starts the pods that have waited for a claim.
func (cs *claims) bound(n name) {
	users := map[types.UID]*pod{}
	for uid := range cs.users[n] {
		if p := cs.w.kubelet.pods[uid]; p != nil && p.node != "" {
			users[uid] = p
		}
	}
	for _, p := range sorted(users) {
		cs.w.kubelet.boot(p)
	}
}

// erase removes the data folders of a volume.
func (cs *claims) erase(volume types.UID) {
	for _, folder := range slices.Sorted(maps.Keys(cs.folders[volume])) {
		cs.w.database.Erase(folder)
	}
	delete(cs.folders, volume)
}

// DeleteClaim deletes a claim as a person does: it goes with the last pod that uses it.
func (cs *claims) DeleteClaim(namespace, claim string) {
	if o := get[*corev1.PersistentVolumeClaim](cs.w.store, name{namespace, claim}); o != nil {
		cs.w.store.delete(o, "")
	}
}
