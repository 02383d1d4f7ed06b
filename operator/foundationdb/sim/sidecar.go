package sim

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/fdb"
)

// sidecars is the HTTP of the sidecars as one instance of the operator reaches it.
type sidecars struct {
	w     *World
	owner string
}

// substitutions are the variables of the sidecar. Source of what it does: foundationdb 7.3.69,
// packaging/docker/sidecar.py.
func (c *container) substitutions(spec *corev1.Container) (map[string]string, error) {
	f := flagsOf(spec)
	known := map[string]string{}
	for _, variable := range []string{"FDB_PUBLIC_IP", "FDB_MACHINE_ID", "FDB_ZONE_ID", "FDB_INSTANCE_ID", "FDB_POD_IP"} {
		known[variable] = c.env[variable]
	}
	fallBack := func(variable, value string) {
		if known[variable] == "" {
			known[variable] = value
		}
	}
	fallBack("FDB_MACHINE_ID", c.env["HOSTNAME"])
	fallBack("FDB_ZONE_ID", known["FDB_MACHINE_ID"])
	podIP, given := c.env["FDB_POD_IP"]
	if !given {
		podIP = c.p.ips[0]
	}
	fallBack("FDB_PUBLIC_IP", podIP)
	known["BINARY_DIR"] = "/usr/bin"
	if f.one("main-container-version") != c.version.String() {
		known["BINARY_DIR"] = path.Join(f.or("main-container-conf-dir", "/var/dynamic-conf"), "bin", c.version.String())
	}
	for _, variable := range f["substitute-variable"] {
		known[variable] = c.env[variable]
	}
	if family := f.one("public-ip-family"); family != "" {
		for _, variable := range []string{"FDB_PUBLIC_IP", "FDB_POD_IP"} {
			if known[variable] == "" {
				continue
			}
			ip, err := ofFamily(family, known[variable])
			if err != nil {
				return nil, err
			}
			known[variable] = ip
		}
	}
	return known, nil
}

// ofFamily returns the first IP of a family in a list, with brackets if it is IPv6.
func ofFamily(family, list string) (string, error) {
	for text := range strings.SplitSeq(list, ",") {
		ip, err := netip.ParseAddr(text)
		switch {
		case err != nil:
			return "", err
		case family == "4" && ip.Is4():
			return text, nil
		case family == "6" && ip.Is6():
			return "[" + text + "]", nil
		}
	}
	return "", fmt.Errorf("failed to find IPv%s entry in %s", family, list)
}

// runInit runs an init container. It returns why it has failed; empty: it has not.
func (p *pod) runInit(o *corev1.Pod, spec *corev1.Container) string {
	kind := programOf(spec)
	if kind == other {
		return ""
	}
	version, ok := imageVersion(spec.Image)
	switch {
	case kind == crashes:
		return "Init:CrashLoopBackOff"
	case !ok:
		return "Init:ErrImagePull"
	}
	c := &container{p: p, name: spec.Name, image: spec.Image, version: version, env: environment(o, spec, p)}
	if c.copyFiles(spec) != nil {
		return "Init:CrashLoopBackOff"
	}
	c.copyBinariesOf(spec)
	if kind == serves && c.copyMonitorConf(spec) != nil {
		return "Init:CrashLoopBackOff"
	}
	return ""
}

func inputDir(f flags) string  { return f.or("input-dir", "/var/input-files") }
func outputDir(f flags) string { return f.or("output-dir", "/var/output-files") }

// copyFiles copies files of the config map to the output folder.
func (c *container) copyFiles(spec *corev1.Container) error {
	f := flagsOf(spec)
	for _, file := range f["require-not-empty"] {
		if text, _ := c.p.read(spec, path.Join(inputDir(f), file)); text == "" {
			return fmt.Errorf("no contents for file %s", file)
		}
	}
	for _, file := range f["copy-file"] {
		text, there := c.p.read(spec, path.Join(inputDir(f), file))
		if !there {
			return fmt.Errorf("there is no file %s", file)
		}
		c.p.write(spec, path.Join(outputDir(f), file), text)
	}
	return nil
}

func (c *container) copyBinaries() { c.copyBinariesOf(c.spec()) }

// copyBinariesOf copies the programs of an image to bin/ and its version below the output folder, unless the main
// container has them itself.
func (c *container) copyBinariesOf(spec *corev1.Container) {
	f := flagsOf(spec)
	if f.one("main-container-version") == c.version.String() && programOf(spec) == copies && f.one("mode") == "sidecar" ||
		f.one("main-container-version") == c.version.String() && programOf(spec) == serves {
		return
	}
	for _, binary := range f["copy-binary"] {
		c.p.write(spec, path.Join(outputDir(f), "bin", c.version.String(), binary), "program "+binary+" "+c.version.String())
	}
}

// copyMonitorConf makes fdbmonitor.conf of its template.
func (c *container) copyMonitorConf(spec *corev1.Container) error {
	f := flagsOf(spec)
	file := f.one("input-monitor-conf")
	if file == "" {
		return nil
	}
	text, there := c.p.read(spec, path.Join(inputDir(f), file))
	if !there {
		return fmt.Errorf("there is no file %s", file)
	}
	known, err := c.substitutions(spec)
	if err != nil {
		return err
	}
	order := []string{"FDB_PUBLIC_IP", "FDB_MACHINE_ID", "FDB_ZONE_ID", "FDB_INSTANCE_ID", "FDB_POD_IP", "BINARY_DIR"}
	for _, variable := range slices.Concat(order, f["substitute-variable"]) {
		text = strings.ReplaceAll(text, "$"+variable, known[variable])
	}
	c.p.write(spec, path.Join(outputDir(f), "fdbmonitor.conf"), text)
	return nil
}

// filesCopied tells fdbmonitor that the files it reads have changed.
func (c *container) filesCopied() {
	for _, other := range c.p.containers {
		if other.monitor != nil {
			c.p.w.after(c.p.w.options.Times.Nudge, other.filesChanged)
		}
	}
}

// reach returns the sidecar of a pod.
func (s *sidecars) reach(ctx context.Context, verb string, pod *corev1.Pod) (*container, *corev1.Container, error) {
	s.w.hooks.count(s.owner, verb, "Pod")
	if err := cmp.Or(ctx.Err(), s.w.hooks.alive(s.owner)); err != nil {
		return nil, nil, err
	}
	if s.owner != "" && s.w.faults.hit(FaultSidecarSilent, verb, "Pod", pod.Name) != nil {
		return nil, nil, fmt.Errorf("pod %s: the sidecar does not answer", nameOf(pod))
	}
	p := s.w.kubelet.pods[pod.UID]
	if p == nil || !p.booted || p.ended || p.lost() {
		return nil, nil, fmt.Errorf("pod %s: no route to host", nameOf(pod))
	}
	for _, c := range p.containers {
		if spec := c.spec(); spec != nil && c.running && programOf(spec) == serves {
			return c, spec, nil
		}
	}
	return nil, nil, fmt.Errorf("pod %s: connection refused", nameOf(pod))
}

// Substitutions returns the variables of a sidecar.
func (s *sidecars) Substitutions(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	c, spec, err := s.reach(ctx, "Substitutions", pod)
	if err != nil {
		return nil, err
	}
	known, err := c.substitutions(spec)
	return maps.Clone(known), err
}

// Hash returns the SHA-256 of a file.
func (s *sidecars) Hash(ctx context.Context, pod *corev1.Pod, file string) (string, error) {
	c, spec, err := s.reach(ctx, "Hash", pod)
	if err != nil {
		return "", err
	}
	text, there := c.p.read(spec, path.Join(outputDir(flagsOf(spec)), file))
	if !there {
		return "", nil
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:]), nil
}

// Present reports whether a file is there.
func (s *sidecars) Present(ctx context.Context, pod *corev1.Pod, file string) (bool, error) {
	c, spec, err := s.reach(ctx, "Present", pod)
	if err != nil {
		return false, err
	}
	if old, err := fdb.ParseVersion("7.1.4"); err == nil && c.version.Compare(old) < 0 {
		return false, fmt.Errorf("pod %s: the sidecar of %s answers 404: Path not found", nameOf(pod), c.version)
	}
	_, there := c.p.read(spec, path.Join(outputDir(flagsOf(spec)), file))
	return there, nil
}

// Copy makes the files anew.
func (s *sidecars) Copy(ctx context.Context, pod *corev1.Pod) error {
	c, spec, err := s.reach(ctx, "Copy", pod)
	if err != nil {
		return err
	}
	return s.w.hooks.effect(Effect{Owner: s.owner, Verb: "Copy", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}, func() error {
		if err := c.copyFiles(spec); err != nil {
			return err
		}
		if err := c.copyMonitorConf(spec); err != nil {
			return err
		}
		c.filesCopied()
		return nil
	})
}
