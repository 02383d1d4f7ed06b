package kubelet

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// credential returns the user of a container; nil is the test's own user, and always if
// that is not root.
func credential(pod *corev1.Pod, c *corev1.Container, image Image) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	user, group, never := image.User, image.User, false
	if s := pod.Spec.SecurityContext; s != nil {
		user, group, never = valueOr(s.RunAsUser, user), valueOr(s.RunAsGroup, valueOr(s.RunAsUser, group)), optional(s.RunAsNonRoot)
	}
	if s := c.SecurityContext; s != nil {
		user, group = valueOr(s.RunAsUser, user), valueOr(s.RunAsGroup, valueOr(s.RunAsUser, group))
		if s.RunAsNonRoot != nil {
			never = *s.RunAsNonRoot
		}
	}
	if never && user == 0 {
		return nil, errors.New("container has runAsNonRoot and image will run as root")
	}
	cred := &syscall.Credential{Uid: uint32(user), Gid: uint32(group)}
	if s := pod.Spec.SecurityContext; s != nil {
		for _, g := range s.SupplementalGroups {
			cred.Groups = append(cred.Groups, uint32(g))
		}
	}
	if g := fsGroup(pod); g >= 0 {
		cred.Groups = append(cred.Groups, uint32(g))
	}
	return cred, nil
}

// withLocalUsers returns a pod with the ids of this machine's users.
func withLocalUsers(pod *corev1.Pod, users map[int64]int64) *corev1.Pod {
	if pod == nil || len(users) == 0 {
		return pod
	}
	pod = pod.DeepCopy()
	var ids []*int64
	if s := pod.Spec.SecurityContext; s != nil {
		ids = append(ids, s.RunAsUser, s.RunAsGroup, s.FSGroup)
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			if s := c.SecurityContext; s != nil {
				ids = append(ids, s.RunAsUser, s.RunAsGroup)
			}
		}
	}
	for _, id := range ids {
		if id != nil {
			if local, ok := users[*id]; ok {
				*id = local
			}
		}
	}
	return pod
}

// fsGroup returns the group that owns a pod's volumes; -1 if there is none or the test is
// not root.
func fsGroup(pod *corev1.Pod) int {
	if s := pod.Spec.SecurityContext; os.Geteuid() == 0 && s != nil && s.FSGroup != nil {
		return int(*s.FSGroup)
	}
	return -1
}

func valueOr(p *int64, otherwise int64) int64 {
	if p == nil {
		return otherwise
	}
	return *p
}

// chown makes a user the owner of a folder.
func chown(folder string, cred *syscall.Credential, group int) error {
	if cred == nil {
		return nil
	}
	if group < 0 {
		group = int(cred.Gid)
	}
	if err := os.Chown(folder, int(cred.Uid), group); err != nil {
		return fmt.Errorf("giving a folder to its user: %w", err)
	}
	return nil
}
