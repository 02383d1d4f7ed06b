// Package kubelet simulates the nodes of a Kubernetes control plane for tests.
//
// It creates nodes, renews their leases, and runs the pods that the scheduler binds
// to them. In the mode StatusOnly there are no processes: a pod is Running at once,
// and Ready when a function returns true, so that a test can hold a rollout. In the
// mode Process the containers are real processes of this machine.
//
// # What a container sees in the mode Process
//
// Processes share the file system and the network of the machine; there are no
// namespaces and no root rights are needed. Each pod has its own loopback
// address, 127.x.y.z: status.podIP. With Options.DNS, as root, the names of pods and Services
// resolve to these addresses, through an /etc/resolv.conf of its own. A program must listen at that address (the
// field reference status.podIP as an environment variable), not at 0.0.0.0, or
// two pods compete for a port; an argument --listen=:PORT gets the address. A pod keeps its address when its containers
// restart.
//
// Each container has a root: a folder, named by the environment variable
// CONTAINER_ROOT. A volume mounted at mountPath appears at
// $CONTAINER_ROOT+mountPath, as a link to the volume's folder. The rule by
// which paths are rewritten, once, before the container starts:
//
//   - In command, args, values of env (also those from fieldRef, configMapKeyRef
//     and secretKeyRef, and of envFrom), workingDir, exec probes and exec hooks,
//     each occurrence of a mountPath becomes $CONTAINER_ROOT+mountPath. The
//     longest mountPath is tried first.
//   - It is an occurrence when the character before it is not a letter, a digit
//     or one of _.-/ (or there is none), and the character after it is not a
//     letter, a digit or one of _.- (or there is none): /data is found in /data,
//     /data/pg, --dir=/data and "cd /data;", not in /database or /srv/data.
//   - A path that is a key of Image.Files becomes the local path it names, by
//     the same rule.
//   - All other paths are those of the machine. The contents of files, of
//     ConfigMaps too, are never rewritten: use relative paths there, or
//     $CONTAINER_ROOT where a program expands it.
//
// The environment holds PATH (Image.Path, then the machine's), HOME and TMPDIR
// (in the root), HOSTNAME (the pod's name), KUBERNETES_SERVICE_HOST and _PORT,
// the variables of Image.Env and of the container, and none of the test's own. Where
// a service account's token is mounted, KUBECONFIG names a file with it, as
// client-go's in-cluster configuration looks at a fixed path; controller-runtime
// and clientcmd take KUBECONFIG. With Options.InCluster, as root, the files are at
// that path instead, and rest.InClusterConfig works. Variables of Services are not
// set.
//
// The first word of the command is looked up in the folders of PATH when it
// holds no slash. Without command, Image.Command is used. The working folder is
// the root unless workingDir says otherwise. A container is a session: SIGTERM
// goes to its first process, SIGKILL after the grace to all of them and all
// that carry its CONTAINER_ROOT.
//
// # Volumes
//
// ConfigMap, Secret, downwardAPI and projected volumes are folders whose files
// are links into ..data, which is replaced at once when the source changes, as
// a kubelet does. emptyDir is a folder that ends with the pod. A claim is a
// folder that outlives pods; Claims binds them. hostPath is that path. Mounts
// may name subPath and subPathExpr; readOnly and sizes are not enforced.
// Other volumes keep the pod in ContainerCreating with a message.
//
// # Users
//
// When the test runs as root, runAsUser, runAsGroup and supplementalGroups are
// applied, the container's root and its emptyDirs belong to that user, and a
// claim's folder to the user (and fsGroup) that mounts it last; as anyone else
// these are ignored. Without runAsUser a container runs as Image.User. Options.Users
// maps users with another id on this machine.
//
// # What it does, by mode
//
// Always:
//
//   - Nodes with status and lease; zones, labels and taints (Options.Node, LabelNode,
//     TaintNode); a node without power or network (StopNode, CutNode, StartNode).
//
// In the mode StatusOnly:
//
//   - Pods that are Ready as a function says (Options.Ready, Decide), each with an
//     address; a Job's pod succeeds once it is Ready.
//   - Containers that crash after they were Ready (Options.Crash, or the annotations
//     CrashAfterAnnotation and CrashTimesAnnotation): Ready false, restartCount, and
//     from the second crash on CrashLoopBackOff with a back-off that doubles.
//   - Deleted pods that take their time to go (Options.Termination), at most the
//     grace period.
//
// In the mode Process:
//
//   - Processes with the environment, volumes, users, probes, hooks, init containers,
//     sidecars, restarts and grace periods of the pod's spec, as above. A container whose
//     image is changed is restarted with it.
//   - Files of ConfigMaps and Secrets that change late (Options.FileDelay,
//     SetFileDelay), and tokens of service accounts from the API server, which are replaced
//     at Options.TokenAge.
//   - kubectl logs (-f, --previous, --tail, --limit-bytes, -c) and kubectl exec (-i, -t,
//     -c), through the API server, with Options.Authority (controlplane's
//     Options.Endpoints). LogFile and Exec do the same without them.
//   - Crashes: KillPod and Signal.
//
// # Left out
//
// Resource limits, seccomp and capabilities, host ports, ephemeral containers,
// gRPC probes (they fail with a message), image pull policies, pod overhead.
// kubectl attach, port-forward, cp of folders without tar, top; logs with
// --timestamps or --since, as lines have no times; logs and exec of pods on
// paper. An exec survives its client until its container ends, as on a kubelet. A
// node checks the certificate of an endpoint's client, not its rights. Environment
// variables from ConfigMaps are read when a container starts, without delay. Pods
// on paper run no probes and keep their crashes when their node stops.
package kubelet
