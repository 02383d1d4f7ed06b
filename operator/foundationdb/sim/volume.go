package sim

import (
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// mount takes a pod's config maps as they are. It reports whether all are there.
func (p *pod) mount(o *corev1.Pod) bool {
	for _, v := range o.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		n := name{o.Namespace, v.ConfigMap.Name}
		m := get[*corev1.ConfigMap](p.w.store, n)
		if m == nil {
			if v.ConfigMap.Optional != nil && *v.ConfigMap.Optional {
				continue
			}
			return false
		}
		for _, item := range v.ConfigMap.Items {
			if _, there := m.Data[item.Key]; !there && len(m.BinaryData[item.Key]) == 0 && !(v.ConfigMap.Optional != nil && *v.ConfigMap.Optional) {
				return false
			}
		}
		p.seen[n.name] = m
		if p.w.kubelet.mounters[n] == nil {
			p.w.kubelet.mounters[n] = map[types.UID]*pod{}
		}
		p.w.kubelet.mounters[n][p.uid] = p
	}
	return true
}

// syncIn has the kubelet look at the config maps of a pod after some time.
func (p *pod) syncIn(d time.Duration) {
	if p.synced {
		return
	}
	p.synced = true
	p.w.after(d, func() { p.synced = false; p.sync() })
}

// sync takes the config maps of a pod as they are now, and tells the launcher. One that is gone, or that lacks a
// key, leaves the files as they are.
func (p *pod) sync() {
	o := p.object()
	if o == nil || !p.booted || p.ended || p.lost() {
		return
	}
	before := make(map[string]*corev1.ConfigMap, len(p.seen))
	for cm, seen := range p.seen {
		before[cm] = seen
	}
	if !p.mount(o) {
		return
	}
	for cm, seen := range p.seen {
		if before[cm] != seen {
			for _, c := range p.containers {
				c.filesChanged()
			}
			return
		}
	}
}

// nudge has a pod's programs see changed annotations: the kubelet looks at its files soon, the launcher at once.
func (p *pod) nudge(before, after map[string]string) {
	p.w.after(p.w.options.Times.Nudge, p.sync)
	for _, annotation := range []string{isolateAnnotation, outdatedAnnotation} {
		if before[annotation] != after[annotation] {
			p.w.after(p.w.options.Times.Nudge/10, func() {
				for _, c := range p.containers {
					c.annotated(annotation)
				}
			})
		}
	}
}

// volumeAt returns the volume that a container mounts at a path, and the rest of the path.
func volumeAt(o *corev1.Pod, c *corev1.Container, file string) (volume *corev1.Volume, rest string) {
	best := ""
	for _, m := range c.VolumeMounts {
		at := path.Clean(m.MountPath)
		if (file == at || strings.HasPrefix(file, at+"/")) && len(at) > len(best) {
			best, rest = at, strings.TrimPrefix(strings.TrimPrefix(file, at), "/")
			rest = path.Join(m.SubPath, rest)
			for i := range o.Spec.Volumes {
				if o.Spec.Volumes[i].Name == m.Name {
					volume = &o.Spec.Volumes[i]
				}
			}
		}
	}
	return volume, rest
}

// read returns a file as a container sees it.
func (p *pod) read(c *corev1.Container, file string) (content string, there bool) {
	o := p.object()
	if o == nil {
		return "", false
	}
	v, rest := volumeAt(o, c, path.Clean(file))
	switch {
	case v == nil:
		return "", false
	case v.ConfigMap == nil:
		content, there = p.files[v.Name][rest]
		return content, there
	}
	m := p.seen[v.ConfigMap.Name]
	if m == nil {
		return "", false
	}
	key := rest
	for _, item := range v.ConfigMap.Items {
		if key = ""; item.Path == rest {
			key = item.Key
			break
		}
	}
	if binary, there := m.BinaryData[key]; there {
		return string(binary), true
	}
	content, there = m.Data[key]
	return content, there
}

// write makes a file that a container writes to a volume that began empty.
func (p *pod) write(c *corev1.Container, file, content string) {
	o := p.object()
	if o == nil {
		return
	}
	if v, rest := volumeAt(o, c, path.Clean(file)); v != nil && v.ConfigMap == nil {
		if p.files[v.Name] == nil {
			p.files[v.Name] = map[string]string{}
		}
		p.files[v.Name][rest] = content
	}
}
