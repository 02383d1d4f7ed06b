package etcdproc

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Cluster is a cluster of etcd processes on loopback.
type Cluster struct {
	Binaries Binaries
	members  []*Member
	dir      string
	count    int
}

// Start builds etcd if need be, starts a cluster of n members m1, m2, … and
// waits until all are ready. The test's end stops it.
func Start(t testing.TB, n int) *Cluster {
	t.Helper()
	binaries, err := Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Binaries: binaries, dir: t.TempDir()}
	t.Cleanup(c.stop)
	for range n {
		c.members = append(c.members, c.newMember(t, "new"))
	}
	for _, m := range c.members {
		m.initial = c.initial()
		m.Start(t)
	}
	c.WaitReady(t)
	return c
}

func (c *Cluster) stop() {
	for _, m := range c.members {
		m.Kill()
	}
}

// Member returns the member of that name, nil when there is none.
func (c *Cluster) Member(name string) *Member {
	for _, m := range c.members {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Endpoints returns the client addresses of all members, dead ones included.
func (c *Cluster) Endpoints() []string {
	urls := make([]string, 0, len(c.members))
	for _, m := range c.members {
		urls = append(urls, m.ClientURL)
	}
	return urls
}

// WaitReady waits until each member answers a linearizable read.
func (c *Cluster) WaitReady(t testing.TB) {
	t.Helper()
	for _, m := range c.members {
		m.WaitReady(t)
	}
}

// Leader returns the member that leads, nil while there is none.
func (c *Cluster) Leader(t testing.TB) *Member {
	t.Helper()
	client := connect(t, c.Endpoints())
	defer client.Close()
	for _, m := range c.members {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		status, err := client.Status(ctx, m.ClientURL)
		cancel()
		if err == nil && status.Leader != 0 && status.Leader == status.Header.MemberId {
			return m
		}
	}
	return nil
}

// Add adds a member as a learner, starts it, and promotes it once it has caught up.
func (c *Cluster) Add(t testing.TB) *Member {
	t.Helper()
	client := connect(t, c.Endpoints())
	defer client.Close()
	m := c.newMember(t, "existing")

	var id uint64
	again(t, "add "+m.Name, func(ctx context.Context) error {
		added, err := client.MemberAddAsLearner(ctx, []string{m.PeerURL})
		if err == nil {
			id = added.Member.ID
		}
		return err
	})
	c.members = append(c.members, m)
	m.initial = c.initial()
	m.Start(t)
	again(t, "promote "+m.Name, func(ctx context.Context) error {
		_, err := client.MemberPromote(ctx, id)
		return err
	})
	m.WaitReady(t)
	return m
}

// Remove removes a member from the cluster, running or not, and stops its process.
func (c *Cluster) Remove(t testing.TB, m *Member) {
	t.Helper()
	rest := make([]*Member, 0, len(c.members))
	for _, other := range c.members {
		if other != m {
			rest = append(rest, other)
		}
	}
	client := connect(t, (&Cluster{members: rest}).Endpoints())
	defer client.Close()
	again(t, "remove "+m.Name, func(ctx context.Context) error {
		list, err := client.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, listed := range list.Members {
			if len(listed.PeerURLs) == 1 && listed.PeerURLs[0] == m.PeerURL {
				_, err = client.MemberRemove(ctx, listed.ID)
			}
		}
		return err
	})
	m.Kill()
	c.members = rest
}

// again repeats a change of the membership until etcd accepts it: etcd refuses it while a
// member has been connected for less than five seconds, and refuses to promote a learner
// that lags.
func again(t testing.TB, what string, change func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	pause := time.NewTicker(200 * time.Millisecond)
	defer pause.Stop()
	for {
		err := try(ctx, change)
		if err == nil {
			return
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func try(ctx context.Context, change func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return change(ctx)
}

func (c *Cluster) newMember(t testing.TB, mode string) *Member {
	t.Helper()
	c.count++
	m := &Member{
		Name: fmt.Sprintf("m%d", c.count), binary: c.Binaries.Etcd, initialMode: mode,
		Dir: filepath.Join(c.dir, fmt.Sprintf("m%d", c.count)),
	}
	ports, err := FreePorts(2)
	if err == nil {
		err = os.Mkdir(m.Dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.ClientURL = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	m.PeerURL = fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	return m
}

func (c *Cluster) initial() string {
	pairs := make([]string, 0, len(c.members))
	for _, m := range c.members {
		pairs = append(pairs, m.Name+"="+m.PeerURL)
	}
	return strings.Join(pairs, ",")
}

// FreePorts returns n different free TCP ports of loopback. Another process may take one
// before its use, but the system assigns ports in a way that makes this unlikely.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("a free port: %w", err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
