package kubelet

import "testing"

func TestListenAt(t *testing.T) {
	for word, want := range map[string]string{
		"--listen=:7296":          "--listen=127.9.1.1:7296",
		"-listen=:80":             "-listen=127.9.1.1:80",
		"--listen=127.0.0.1:7296": "--listen=127.0.0.1:7296",
		"--listen=":               "--listen=",
		"listen=:80":              "listen=:80",
		":80":                     ":80",
	} {
		if got := listenAt("127.9.1.1", word); got != want {
			t.Errorf("%s becomes %s, want %s", word, got, want)
		}
	}
}
