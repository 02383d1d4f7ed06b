// Places for a directed graph that has none.
import { Graph, layout } from './vendor/dagre.js';

// layered gives places to nodes ({id, width, height}) and edges ({from, to, width, height of the label}): in ranks, with few crossings.
// direction is LR, ranks from left to right, or TB, from top to bottom.
// It returns {width, height, nodes: id → {x, y} of the middle, edges: [{points, x, y of the label}]}.
export function layered(nodes, edges, direction) {
  const g = new Graph({ multigraph: true });
  g.setGraph({ rankdir: direction, nodesep: 22, ranksep: 30, edgesep: 12, marginx: 12, marginy: 12 });
  for (const n of nodes) g.setNode(n.id, { width: n.width, height: n.height });
  edges.forEach((e, i) => g.setEdge(e.from, e.to, { width: e.width ?? 0, height: e.height ?? 0, labelpos: 'c', weight: e.weight ?? 1 }, `${i}`));
  layout(g);
  const { width, height } = g.graph();
  return {
    width, height,
    nodes: new Map(nodes.map((n) => [n.id, g.node(n.id)])),
    edges: edges.map((e, i) => {
      const { points, x, y } = g.edge(e.from, e.to, `${i}`);
      return { points: points.map((p) => [p.x, p.y]), x, y };
    }),
  };
}
