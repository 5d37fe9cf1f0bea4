// Two workers that have their connections from the master, or their listener: as the cluster is told to.
const cluster = require('cluster'), http = require('http');
if (cluster.isPrimary) {
  cluster.schedulingPolicy = process.argv[2] === 'none' ? cluster.SCHED_NONE : cluster.SCHED_RR;
  for (let worker = 0; worker < 2; worker++) cluster.fork();
} else {
  http.createServer((request, response) => response.end('by ' + cluster.worker.id)).listen(+process.argv[3], '10.77.0.2');
}
