package kubelet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// file is a file of a ConfigMap, Secret, downwardAPI or projected volume.
type file struct {
	data []byte
	mode os.FileMode
}

// volumes creates the folders of a pod's volumes, and returns them by name. A repeated
// call updates the volumes with values.
func (w *worker) volumes(ctx context.Context) (map[string]string, error) {
	pod, folders := w.self(), map[string]string{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		folder, err := w.volume(ctx, pod, v, filepath.Join(w.dir, volumesDir, v.Name))
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", v.Name, err)
		}
		folders[v.Name] = folder
	}
	return folders, nil
}

func (w *worker) volume(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, folder string) (string, error) {
	var claim string
	switch {
	case v.EmptyDir != nil:
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return "", err
		}
		return folder, os.Chmod(folder, 0o777) // beyond the mask
	case v.HostPath != nil:
		if t := v.HostPath.Type; t != nil && *t == corev1.HostPathDirectoryOrCreate {
			return v.HostPath.Path, os.MkdirAll(v.HostPath.Path, 0o755)
		}
		_, err := os.Stat(v.HostPath.Path)
		return v.HostPath.Path, err
	case v.PersistentVolumeClaim != nil:
		claim = v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		claim = pod.Name + "-" + v.Name
	default:
		files, err := w.values(ctx, pod, v, folder)
		if err != nil {
			return "", err
		}
		return folder, replace(folder, files, fsGroup(pod))
	}
	c, err := w.k.client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return claimFolder(ctx, w.k.client, c)
}

// values returns the files of a volume with values.
func (w *worker) values(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, folder string) (map[string]file, error) {
	switch {
	case v.ConfigMap != nil:
		return w.configMap(ctx, pod.Namespace, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.DefaultMode, v.ConfigMap.Optional)
	case v.Secret != nil:
		return w.secret(ctx, pod.Namespace, v.Secret.SecretName, v.Secret.Items, v.Secret.DefaultMode, v.Secret.Optional)
	case v.DownwardAPI != nil:
		return downward(pod, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected == nil:
		return nil, errors.New("the fake kubelet does not know this kind of volume")
	}
	all := map[string]file{}
	for _, s := range v.Projected.Sources {
		var files map[string]file
		var err error
		switch mode := v.Projected.DefaultMode; {
		case s.ConfigMap != nil:
			files, err = w.configMap(ctx, pod.Namespace, s.ConfigMap.Name, s.ConfigMap.Items, mode, s.ConfigMap.Optional)
		case s.Secret != nil:
			files, err = w.secret(ctx, pod.Namespace, s.Secret.Name, s.Secret.Items, mode, s.Secret.Optional)
		case s.DownwardAPI != nil:
			files, err = downward(pod, s.DownwardAPI.Items, mode)
		case s.ServiceAccountToken != nil:
			files, err = w.accountToken(ctx, pod, s.ServiceAccountToken, folder)
		default:
			err = errors.New("a projected source that the fake kubelet does not know")
		}
		if err != nil {
			return nil, err
		}
		for path, f := range files {
			all[path] = f
		}
	}
	return all, nil
}

func (w *worker) configMap(ctx context.Context, namespace, name string, items []corev1.KeyToPath, mode *int32, opt *bool) (map[string]file, error) {
	m, err := w.k.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if missing(err, opt) {
		m, err = &corev1.ConfigMap{}, nil
	}
	if err != nil {
		return nil, err
	}
	data := make(map[string][]byte, len(m.Data)+len(m.BinaryData))
	for key, value := range m.Data {
		data[key] = []byte(value)
	}
	for key, value := range m.BinaryData {
		data[key] = value
	}
	data = w.see("ConfigMap "+name, m.ResourceVersion, data)
	return selectItems("ConfigMap "+name, data, items, mode, opt)
}

func (w *worker) secret(ctx context.Context, namespace, name string, items []corev1.KeyToPath, mode *int32, opt *bool) (map[string]file, error) {
	s, err := w.k.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if missing(err, opt) {
		s, err = &corev1.Secret{}, nil
	}
	if err != nil {
		return nil, err
	}
	return selectItems("Secret "+name, w.see("Secret "+name, s.ResourceVersion, s.Data), items, mode, opt)
}

// see returns the data of a source as the pod sees it (Options.FileDelay).
func (w *worker) see(source, version string, data map[string][]byte) map[string][]byte {
	w.mu.Lock()
	begun := w.folders != nil
	w.mu.Unlock()
	var delay time.Duration
	if begun {
		delay = w.k.fileDelay()
	}
	shown, next := w.late.see(time.Now(), source, version, data, delay)
	if !next.IsZero() {
		w.k.wg.Go(func() {
			if sleep(w.ctx, time.Until(next)) {
				w.refresh()
			}
		})
	}
	return shown
}

// selectItems returns the files that items name, or all.
func selectItems(what string, data map[string][]byte, items []corev1.KeyToPath, mode *int32, opt *bool) (map[string]file, error) {
	files := map[string]file{}
	if len(items) == 0 {
		for key, value := range data {
			files[key] = file{value, fileMode(mode)}
		}
		return files, nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok && optional(opt) {
			continue
		}
		if !ok {
			return nil, fmt.Errorf("%s has no key %s", what, item.Key)
		}
		own := mode
		if item.Mode != nil {
			own = item.Mode
		}
		files[item.Path] = file{value, fileMode(own)}
	}
	return files, nil
}

func downward(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode *int32) (map[string]file, error) {
	files := map[string]file{}
	for _, item := range items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = field(pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = amount(pod, nil, item.ResourceFieldRef)
		}
		if err != nil {
			return nil, err
		}
		own := mode
		if item.Mode != nil {
			own = item.Mode
		}
		files[item.Path] = file{[]byte(value), fileMode(own)}
	}
	return files, nil
}

func fileMode(mode *int32) os.FileMode {
	if mode == nil {
		return 0o644
	}
	return os.FileMode(*mode).Perm()
}

// token is one of a service account, and when it is replaced.
type token struct {
	text  string
	until time.Time
}

// accountToken returns a token of the pod's service account and a kubeconfig that uses it. It
// reuses a token that is young enough.
func (w *worker) accountToken(ctx context.Context, pod *corev1.Pod, want *corev1.ServiceAccountTokenProjection, folder string) (map[string]file, error) {
	path := filepath.Join(folder, want.Path)
	seconds := int64(3600)
	if want.ExpirationSeconds != nil {
		seconds = *want.ExpirationSeconds
	}
	w.mu.Lock()
	kept := w.tokens[path]
	w.mu.Unlock()
	if kept.text == "" || !time.Now().Before(kept.until) {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: &seconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		}}
		if want.Audience != "" {
			request.Spec.Audiences = []string{want.Audience}
		}
		got, err := w.k.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		kept = token{got.Status.Token, time.Now().Add(cmp.Or(w.k.o.TokenAge, time.Duration(seconds)*time.Second/2))}
		w.mu.Lock()
		w.tokens[path] = kept
		w.mu.Unlock()
	}
	config := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: pod
clusters: [{name: pod, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: pod, user: {tokenFile: %q}}]
contexts: [{name: pod, context: {cluster: pod, user: pod, namespace: %q}}]
`, w.k.o.Config.Host, filepath.Join(folder, "ca.crt"), path, pod.Namespace)
	return map[string]file{want.Path: {[]byte(kept.text), 0o644}, kubeconfigFile: {[]byte(config), 0o644}}, nil
}

// The mount path of a service account's token, and the file beside it.
const (
	accountPath    = "/var/run/secrets/kubernetes.io/serviceaccount"
	kubeconfigFile = "kubeconfig"
)

// replace writes the files of a folder atomically: links lead into ..data, which is
// replaced by a rename. If group is not negative, the group may read them.
func replace(folder string, files map[string]file, group int) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	data := filepath.Join(folder, "..data")
	before, err := os.Readlink(data)
	if err == nil && same(data, files) {
		return nil
	}
	now, err := os.MkdirTemp(folder, "..v")
	if err != nil {
		return err
	}
	if err := os.Chmod(now, 0o755); err != nil {
		return err
	}
	for path, f := range files {
		path = filepath.Join(now, path)
		if group >= 0 {
			f.mode |= 0o440
		}
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, f.data, f.mode), os.Chmod(path, f.mode))
		if group >= 0 {
			err = errors.Join(err, os.Chown(path, -1, group))
		}
		if err != nil {
			return err
		}
	}
	link := filepath.Join(folder, "..data_tmp")
	os.Remove(link)
	if err := errors.Join(os.Symlink(filepath.Base(now), link), os.Rename(link, data)); err != nil {
		return err
	}
	top := map[string]bool{}
	for path := range files {
		first, _, _ := strings.Cut(filepath.Clean(path), "/")
		if top[first] = true; !linked(filepath.Join(folder, first)) {
			if err := os.Symlink(filepath.Join("..data", first), filepath.Join(folder, first)); err != nil {
				return err
			}
		}
	}
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..") && !top[e.Name()] {
			os.Remove(filepath.Join(folder, e.Name()))
		}
	}
	if before != "" {
		os.RemoveAll(filepath.Join(folder, before))
	}
	return err
}

func linked(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// same reports whether a folder contains exactly these files.
func same(data string, files map[string]file) bool {
	n := 0
	target, err := filepath.EvalSymlinks(data)
	if err != nil {
		return false
	}
	err = filepath.WalkDir(target, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	})
	if err != nil || n != len(files) {
		return false
	}
	for path, f := range files {
		text, err := os.ReadFile(filepath.Join(target, path))
		if err != nil || !bytes.Equal(text, f.data) {
			return false
		}
	}
	return true
}
