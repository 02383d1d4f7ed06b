package foundationdb

// publishedHashes are hashes that fdb-kubernetes-operator 2.33.0 has computed: see TestPublishedHashes.
var publishedHashes = []struct{ spec, id, split, unified string }{
	{
		`version: 7.3.69`, "storage-1",
		"ac4e1fec97a3c9955413cc3f67d9162d505c35613bdd6ca5b762b20cae74ad2b",
		"8f2b83ef81fb8281f79dffa1ea692dfc3b3de96758141e9c22001f7b3bc86783",
	},
	{
		`version: 7.3.69`, "cluster_controller-3",
		"38d45bec3186009e8ca55061e51c716a2263f28de19b244ecd6f6713c3df86cb",
		"abefed47700ea1dcb99799f290f41b00b4fc45159d1005740d56cda7e4ef547f",
	},
	{
		`version: 7.3.79`, "log-2",
		"7c216e77e6b2f6feeab1d65a61934b2e97bb4d9b841ca32c89deee511160665b",
		"06427e3336ad9ede1f1820eaaa98b4d189336d7d826c325a1365f8cba6ec07c8",
	},
	{
		`version: 7.4.6`, "log-2",
		"bcbc59b5677eac433d58f451cb75118d968531081ddbb8fc7f8dddd7df50c65b",
		"6d0e1a14773441a3b0c47829e5e5b6e02641c1a64cd928a916b00b7fb2075abb",
	},
	{
		`routing: {podIPFamily: 6, publicIPSource: service}`, "log-2",
		"211395779103e3d1ff0bf7b24e6e0e99997fb60493ad585943dbb572bb6720f4",
		"ea18bafb092546d5207bfbbd4b67a9cfee77f658e4fd1c263018f1d8facc3fbb",
	},
	{
		`routing: {useDNSInClusterFile: false}`, "log-2",
		"fb97097001c9b15f61c76f62c820566259b7a8bc9871562603d96bdf543cbca6",
		"cf6fa40ddd6ed319328dc230624b2b26fac26fc80cbcb6b38aba9a3961288124",
	},
	{
		`storageServersPerPod: 2`, "storage-1",
		"90a868a2720c474aed657e7b9380e621558dc0900ff057220259c5803b435219",
		"8990d0a21412aca4b499e81d25347eb0ceb42aa953bd2e7dafe5f748dfd7a950",
	},
	{
		`mainContainer: {enableTls: true}, sidecarContainer: {enableTls: true, enableReadinessProbe: true, peerVerificationRules: "I.CN=b"}, trustedCAs: [one]`, "stateless-3",
		"2dab9a5c5fe0eaf829119388d01a6c32538a5c4e4d8f3e109105b5ca8294f14c",
		"8c9779b5665ba41c9c2ffe30badb6c0427bfc634352fd38917bce5b5b6746409",
	},
	{
		`faultDomain: {key: foundationdb.org/none}, sidecarVariables: [RACK], logGroup: mine`, "storage-1",
		"8d797f2362ebc8a8ab1656d467e3c4c02ebc2ce2a3005e2287650560d24bb928",
		"b096e225719a6323e7b49a5eabfd85aa48c3cd1d3788ca45ecd4420fabdd1927",
	},
	{
		`faultDomain: {key: foundationdb.org/kubernetes-cluster, value: kc1}, processGroupIDPrefix: kc1`, "kc1-storage-1",
		"ff5b452876e4f39c7302b38467d067ed981d291fe3f9a086f8d7509313d3abb0",
		"b9610788727a3a4ed81a73f1608b110e7aecceb072b5f6c53d8fe119c567a7c3",
	},
	{
		`buggify: {noSchedule: [log-2], crashLoopContainers: [{containerName: foundationdb, targets: [log-2]}, {containerName: foundationdb-kubernetes-sidecar, targets: ["*"]}]}`, "log-2",
		"82c1a257e3674a3b190c99b518d7e46b641d1ca6e5ce3eaaaf79680e1f8d52b1",
		"402fbbad97fc99cf54e63632d033133dda182e938b14bfb3b1380c9694999599",
	},
	{
		`processes: {general: {podTemplate: {spec: {nodeSelector: {a: b}, containers: [{name: other, image: x}, {name: foundationdb, image: mirror/fdb, env: [{name: FDB_ZONE_ID, value: mine}], resources: {requests: {cpu: 2}}, volumeMounts: [{name: data, mountPath: /data}]}], volumes: [{name: own, emptyDir: {}}]}}}}`, "log-2",
		"c997363eb76204bab1b629dd78c597ad2f52242ab80c64b15850de10ad562412",
		"5002dc566337b9b374e0796dbe081389514c80c28c3e89f4b16c01b4a73ac29e",
	},
}

// Hashes of claims that fdb-kubernetes-operator 2.33.0 has computed: see TestClaim.
const (
	publishedClaim16G     = "26c46a48b72a4b786be02e7290a9607cb265913105131323fb04e86284cea53d"
	publishedClaimDefault = "f0c8a45ea6c3dd26c2dc2b5f3c699f38d613dab273d0f8a6eae6abd9a9569063"
)
