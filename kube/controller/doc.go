// Package controller is what all operators share on Kubernetes: how their
// controllers are set up, and how they speak to the API server.
//
//	m, err := controller.NewManager(config, controller.Options{Scheme: scheme, Listen: ":7296"})
//	err = controller.Setup(m, controller.Controller[*v1alpha1.SharedStorageCluster]{
//		For:        &v1alpha1.SharedStorageCluster{},
//		Conditions: func(c *v1alpha1.SharedStorageCluster) *[]metav1.Condition { return &c.Status.Conditions },
//		Owns:       []client.Object{&corev1.Pod{}},
//		Reconcile:  operator.Reconcile,
//	})
//	err = m.Start(ctx)
//
// controller-runtime lists, watches, caches, queues and elects. Ours is what it
// leaves open: when an object of the main kind wakes its controller, how often a
// failure is retried and what becomes of it then, how faults reach conditions,
// Events and metrics, and writes that cannot overwrite what they have not seen.
//
// Errors of the manager's client are declared faults (see Fault), so that
// trouble of the API server uses up no retry.
package controller
