// Package controller is the shared base of all operators on Kubernetes: it sets up their
// controllers and their client of the API server.
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
// controller-runtime lists, watches, caches, queues and elects. This package adds which
// changes of an object trigger its controller, how often a failure is retried and what
// happens then, how faults get into conditions, Events and metrics, and writes that cannot
// overwrite a version that they have not seen.
//
// Errors of the manager's client are declared faults (see Fault), so that failures of the
// API server use up no retry.
package controller
