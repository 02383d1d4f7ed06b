package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

const (
	system    = "pawl-system" // of deploy/install.yaml
	namespace = "default"
	name      = "orders"
)

// instance is an instance that can be queried.
type instance struct {
	v1alpha1.InstanceStatus
	id, password string
}

func (i instance) dsn() string {
	return fmt.Sprintf("host=%s port=%d user=postgres password=%s dbname=postgres sslmode=disable connect_timeout=2", i.Address, i.Port, i.password)
}

func (d *Demo) cluster(ctx context.Context) (*v1alpha1.SharedStorageCluster, error) {
	c := &v1alpha1.SharedStorageCluster{}
	return c, d.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, c)
}

func (d *Demo) instance(ctx context.Context, c *v1alpha1.SharedStorageCluster, id string) (instance, error) {
	secret := &corev1.Secret{}
	err := d.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name + "-auth"}, secret)
	return instance{c.Status.Instances[id], id, string(secret.Data["password"])}, err
}

// route returns the target of Service orders-rw: the fake kubelet's pods have no route
// from Services.
func (d *Demo) route(ctx context.Context) (string, error) {
	service := &corev1.Service{}
	if err := d.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name + "-rw"}, service); err != nil {
		return "", err
	}
	var pods corev1.PodList
	if err := d.client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels(service.Spec.Selector)); err != nil {
		return "", err
	}
	for _, pod := range pods.Items {
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if ready {
			i, err := d.instance(ctx, &v1alpha1.SharedStorageCluster{}, "")
			i.Address, i.Port = pod.Status.PodIP, service.Spec.Ports[0].Port
			return i.dsn(), err
		}
	}
	return "", errors.New("no pod of Service orders-rw is ready")
}

type check func(*v1alpha1.SharedStorageCluster) error

// awaitRunning waits until the cluster is Running with the given number of readers, all
// healthy, and of its newest spec.
func (d *Demo) awaitRunning(ctx context.Context, readers int32, also check) (c *v1alpha1.SharedStorageCluster, err error) {
	err = d.Until(ctx, fmt.Sprintf("%s rests with %d readers", name, readers), func(ctx context.Context) error {
		if c, err = d.cluster(ctx); err != nil {
			return err
		}
		s := c.Status
		if s.State != "Running" || s.ObservedGeneration != c.Generation || s.Readers != readers {
			return fmt.Errorf("it is %s with %d readers, generation %d of %d: %s %s", s.State, s.Readers, s.ObservedGeneration, c.Generation, s.Reason, s.Message)
		}
		for id, i := range s.Instances {
			if i.Health != "Healthy" || i.Role == "tempro" {
				return fmt.Errorf("instance %s (%s) is %s: %s", id, i.Role, i.Health, i.Message)
			}
		}
		if also != nil {
			return also(c)
		}
		return nil
	})
	return c, err
}

func writerIs(id string) check {
	return func(c *v1alpha1.SharedStorageCluster) error {
		if c.Status.Writer != id {
			return fmt.Errorf("the writer is %s", c.Status.Writer)
		}
		return nil
	}
}

func writerIsNot(name, address string) check {
	return func(c *v1alpha1.SharedStorageCluster) error {
		if i := c.Status.Instances[c.Status.Writer]; i.Name == name && i.Address == address {
			return fmt.Errorf("the writer is %s still", name)
		}
		return nil
	}
}

func classIs(class string) check {
	return func(c *v1alpha1.SharedStorageCluster) error {
		for id, i := range c.Status.Instances {
			if i.Class != class {
				return fmt.Errorf("instance %s is of class %s", id, i.Class)
			}
		}
		return nil
	}
}

// awaitRun waits until a run of a flow is active, and returns its id.
func (d *Demo) awaitRun(ctx context.Context, flow string) (run string, err error) {
	err = d.Until(ctx, "a run of "+flow+" is under way", func(ctx context.Context) error {
		c, err := d.cluster(ctx)
		if err != nil {
			return err
		}
		if r := c.Status.Run; r == nil || r.Flow != flow || r.Step == "" {
			return fmt.Errorf("the cluster is %s, its run %+v", c.Status.State, r)
		}
		run = c.Status.Run.ID
		return nil
	})
	return run, err
}

// short returns the short form of a run's id.
func short(run string) string { return run[:min(4, len(run))] }

// checkFailoverSafe returns an error if a failover could lose a row.
func (d *Demo) checkFailoverSafe(ctx context.Context) error {
	kept := &corev1.ConfigMap{}
	err := d.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name + "-manager"}, kept)
	if err == nil && !strings.Contains(kept.Data["state.json"], `"safe":true`) {
		err = errors.New("not yet: " + kept.Data["state.json"])
	}
	return err
}

// killLeader kills the leader's pod, as a crash would: only the leader starts controllers.
func (d *Demo) killLeader(ctx context.Context) error {
	var pods corev1.PodList
	if err := d.client.List(ctx, &pods, client.InNamespace(system)); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		text, err := os.ReadFile(d.Plane.Kubelet.LogFile(system, pod.Name, "operator"))
		if err != nil || !strings.Contains(string(text), "Starting Controller") {
			continue
		}
		d.Print("$ kill -9 %d   # pawl operator in pod %s, the leader", d.Plane.Kubelet.PIDs(system, pod.Name)["operator"], pod.Name)
		return d.Plane.Kubelet.KillPod(system, pod.Name)
	}
	return errors.New("no operator leads")
}

// psql queries an instance and shows the result.
func (d *Demo) psql(ctx context.Context, i instance, sql string) error {
	d.Print("$ psql -h %s -U postgres -c %q   # instance %s", i.Address, sql, i.id)
	cmd := d.Command(ctx, "psql", "-h", i.Address, "-p", fmt.Sprint(i.Port), "-U", "postgres", "-X", "-c", sql)
	cmd.Env = append(cmd.Env, "PGPASSWORD="+i.password)
	cmd.Stdout, cmd.Stderr = d.Out, d.Out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("psql: %w", err)
	}
	return nil
}
