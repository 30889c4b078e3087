"""A cluster on one machine: each of its machines is a set of Linux namespaces (network, processes, mounts, host name)
with an address, a shaped link to a common bridge, a home folder and an sshd of its own.

    with Cluster(["master", "slave1", "slave2"], rate="1gbit") as cluster:
        cluster.run("master", ["ssh", "-F", cluster.ssh_config, "slave1", "hostname"])

No process and no namespace outlives the test, however the test ends. The namespaces have no names, so each vanishes
with its last process, and the kernel kills every process whose parent has died, beginning with the test. A folder that
a killed test leaves behind is removed by the next test. The host's configuration is not changed: the distribution's
package with sshd is unpacked into a cache, not installed. Needs root; `why_not()` names what is missing.
"""
import contextlib
import fcntl
import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time

PREFIX = "tethys-cluster-"
CACHE = os.path.expanduser("~/.cache/tethys-tests/sshd")
PACKAGES = ["openssh-server", "libwrap0"]
TOOLS = ["ip", "tc", "unshare", "nsenter", "setpriv", "ssh", "ssh-keygen"]
# Seconds after which a test fails because something hangs. Long, because a busy machine is slow.
PATIENCE = 300
CPU_GROUPS = "/sys/fs/cgroup/cpu"
MEMORY_GROUPS = "/sys/fs/cgroup/memory"
LEAST_QUOTA = 1000  # Microseconds a period; the least that Linux takes, so that the periods are short.

SSHD_CONFIG = """
HostKey {root}/host_key
AuthorizedKeysFile {root}/user_key.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
"""

SSH_CONFIG = """
Host {name}
  HostName {address}
  User root
"""

SSH_CONFIG_FOR_ALL = """
Host *
  IdentityFile {root}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {root}/known_hosts
"""

# The script of a machine's process 1. Once a line on standard input says that the link exists, the script starts sshd
# and prints "ready".
INIT = """
set -e
mount --bind {folder}/passwd /etc/passwd
mount --bind {folder}/shadow /etc/shadow
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/sshd
hostname {name}
ip link set lo up
read -r
ip address add {prefix} dev eth0 {words}
ip link set eth0 up
cd {folder}/home
LD_LIBRARY_PATH={libraries} {sshd} -D -e -f {root}/sshd_config 2>>{folder}/sshd.log &
disown
until grep -q ":0016 00000000:0000 0A" /proc/net/tcp; do kill -0 $!; sleep 0.01; done  # Listens on port 22.
echo ready
set +e
while true; do sleep 1000 & wait; done
"""


def sshd_path():
    return os.path.join(CACHE, "usr/sbin/sshd")


def fetch_sshd():
    """Unpacks the distribution's sshd into the cache; installs and starts nothing."""
    if os.path.exists(sshd_path()):
        return
    os.makedirs(os.path.dirname(CACHE), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(CACHE)) as folder:
        subprocess.run(["apt-get", "download", "-q", *PACKAGES], cwd=folder, check=True, timeout=PATIENCE,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for package in glob.glob(os.path.join(folder, "*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, os.path.join(folder, "root")], check=True)
        try:
            os.rename(os.path.join(folder, "root"), CACHE)
        except OSError:
            if not os.path.exists(sshd_path()):  # Otherwise another test has just unpacked it.
                raise


def why_not():
    """The reason why a cluster cannot be made here, or None."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)} (packages iproute2, util-linux, openssh-client)"
    if subprocess.run(["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "true"], check=False,
                      stderr=subprocess.DEVNULL).returncode != 0:
        return "needs a kernel and a container that allow network namespaces"
    try:
        fetch_sshd()
    except (OSError, subprocess.SubprocessError) as error:
        return f"needs sshd, and apt-get download openssh-server failed: {error}"
    return None


def dies_with_us(command):
    return ["setpriv", "--pdeathsig", "KILL", *command]


class Machine:
    """A machine of a cluster. All processes in its network namespace are its own; killing the first kills them all."""

    def __init__(self, name, address, cluster):
        self.name = name
        self.address = address
        self.folder = os.path.join(cluster.root, name)
        self.home = os.path.join(self.folder, "home")
        os.makedirs(self.home)
        for file, line in (("passwd", f"root:x:0:0:root:{self.home}:/bin/bash\nsshd:x:105:65534::/run/sshd:/bin/false"),
                           ("shadow", "root:*:19000:0:99999:7:::")):
            with open(os.path.join(self.folder, file), "w", encoding="utf-8") as out:
                out.write(line + "\n")
        six = ":" in address  # Duplicate address detection would delay the first connection by a second.
        init = INIT.format(name=name, prefix=address + ("/64" if six else "/24"), words="nodad" if six else "", folder=self.folder, root=cluster.root, sshd=sshd_path(),
                           libraries=":".join(glob.glob(CACHE + "/**/lib/*-linux-gnu", recursive=True)))
        self.process = subprocess.Popen(
            dies_with_us(["unshare", "--net", "--uts", "--pid", "--mount-proc", "--fork", "--kill-child", "bash", "-c",
                          init]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment())
        self.init = child_of(self.process)
        self.network = os.readlink(f"/proc/{self.init}/ns/net")
        self.groups = []

    def limit(self, cores):
        """Gives all processes of the machine together this much of a core."""
        if not os.path.exists(os.path.join(CPU_GROUPS, "cpu.cfs_quota_us")):
            raise RuntimeError(f"machines with cores of their own need the controller cpu of cgroup v1 at {CPU_GROUPS},"
                               " which this host does not have: mount it there, or leave out the number of cores")
        self.join_group(CPU_GROUPS, {"cpu.cfs_period_us": round(LEAST_QUOTA / cores), "cpu.cfs_quota_us": LEAST_QUOTA})

    def limit_memory(self, size):
        """Gives all processes of the machine together this many bytes."""
        if not os.path.exists(os.path.join(MEMORY_GROUPS, "memory.limit_in_bytes")):
            raise RuntimeError(f"machines with memory of their own need the controller memory of cgroup v1 at {MEMORY_GROUPS}")
        self.join_group(MEMORY_GROUPS, {"memory.limit_in_bytes": size})

    def join_group(self, hierarchy, limits):
        group = os.path.join(hierarchy, f"{os.path.basename(os.path.dirname(self.folder))}-{self.name}")
        os.mkdir(group)
        self.groups.append(group)
        for file, value in (*limits.items(), ("cgroup.procs", self.init)):
            with open(os.path.join(group, file), "w", encoding="utf-8") as out:
                out.write(str(value))

    def install(self, program, build):
        """Gives the machine this build of tethys, in place of a launcher that copies it there."""
        path = os.path.join(self.home, ".cache/tethys", build, "tethys")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(program, path)

    def environment(self):
        """The variables of commands; bundles that they make are packed quickly."""
        return {"PATH": os.environ["PATH"], "HOME": self.home, "LANG": "C", "BUNDLE_LEVEL": "1"}

    def start(self):
        """Starts sshd; called once the link exists."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{self.name} did not start")

    def processes(self):
        """{process id: command line} of all processes except the first two, which make up the machine."""
        found = {}
        for path in glob.glob("/proc/[0-9]*"):
            if int(path.split("/")[2]) in (self.process.pid, self.init):
                continue
            try:
                if os.readlink(path + "/ns/net") != self.network:
                    continue
                with open(path + "/cmdline", "rb") as file:
                    line = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
            except OSError:
                continue
            if line:  # The line of a process that has ended and is not reaped yet is empty.
                found[int(path.split("/")[2])] = line
        return found

    def kill(self, pattern, number=signal.SIGKILL):
        """Signals every process whose command line contains `pattern`; after SIGKILL waits until they are gone."""
        hit = [pid for pid, line in self.processes().items() if pattern in line]
        for pid in hit:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + PATIENCE
        while number == signal.SIGKILL and not all(map(has_ended, hit)):
            if time.monotonic() > deadline:
                raise RuntimeError(f"a process with {pattern} in its command line on {self.name} outlives the signal")
            time.sleep(0.002)

    def cut_off(self):
        """Takes the link of the machine down; its connections are not closed."""
        call(["nsenter", "--net", f"--target={self.init}", "ip", "link", "set", "eth0", "down"])

    def reconnect(self):
        """Ends cut_off."""
        call(["nsenter", "--net", f"--target={self.init}", "ip", "link", "set", "eth0", "up"])

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        deadline = time.monotonic() + PATIENCE
        while self.groups and time.monotonic() < deadline:
            try:
                os.rmdir(self.groups[-1])
                self.groups.pop()
            except OSError:  # Its last processes are being reaped.
                time.sleep(0.002)


def has_ended(pid):
    """True also for a process that nobody has waited for yet: its parent may have ended together with it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def child_of(process):
    """The id of the process that unshare has forked."""
    path = f"/proc/{process.pid}/task/{process.pid}/children"
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with open(path, encoding="utf-8") as file:
            children = file.read().split()
        if children:
            return int(children[0])
        time.sleep(0.002)
    raise RuntimeError("unshare made no process")


class Cluster:
    """Machines that links connect. `rate` limits each direction of each link, as tc writes it ("1gbit");
    None: no limit. `other_rates`: by name of a machine, the rate of its link if it differs. `cores`: how much
    of a core each machine has (a quota of the scheduler, a millisecond a period), which needs the controller
    cpu of cgroup v1; None: all machines share this one's cores. A dictionary has it by name, and the machines
    that it lacks share this one's cores. `memory`: by name, the bytes that a machine has (controller memory
    of cgroup v1). `ipv6`: the machines have IPv6 addresses only."""

    def __init__(self, names, rate=None, other_rates=None, cores=None, memory=None, ipv6=False):
        remove_leftovers()
        self.root = tempfile.mkdtemp(prefix=PREFIX)
        os.chmod(self.root, 0o755)
        # The file is locked before it gets the name "lock", so an unlocked file of this name shows that its test has
        # ended.
        self.lock = open(os.path.join(self.root, "lock.new"), "w", encoding="utf-8")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        os.rename(self.lock.name, os.path.join(self.root, "lock"))
        self.ssh_config = os.path.join(self.root, "ssh_config")
        self.machines = {}
        self.cores = cores if isinstance(cores, dict) else {name: cores for name in names if cores is not None}
        self.memory = memory or {}
        self.network = "fd77::" if ipv6 else "10.77.0."
        self.hub = None
        try:
            self.make(names, rate, other_rates or {})
        except BaseException:
            self.close()
            raise

    def make(self, names, rate, other_rates):
        for i, name in enumerate(names):
            self.machines[name] = Machine(name, f"{self.network}{i + 1}", self)
            if name in self.cores:
                self.machines[name].limit(self.cores[name])
            if name in self.memory:
                self.machines[name].limit_memory(self.memory[name])
        self.write_keys()
        self.hub = subprocess.Popen(dies_with_us(["unshare", "--net", "--fork", "--kill-child", "sleep", "infinity"]))
        hub = str(child_of(self.hub))
        in_hub = ["nsenter", "--net", f"--target={hub}"]
        call(in_hub + ["ip", "link", "add", "bridge", "type", "bridge"])
        call(in_hub + ["ip", "link", "set", "bridge", "up"])
        for i, machine in enumerate(self.machines.values()):
            port = f"port{i + 1}"
            in_machine = ["nsenter", "--net", f"--target={machine.init}"]
            call(["ip", "link", "add", "eth0", "netns", str(machine.init), "type", "veth", "peer", "name", port,
                  "netns", hub])
            call(in_hub + ["ip", "link", "set", port, "master", "bridge", "up"])
            own_rate = other_rates.get(machine.name, rate)
            if own_rate:
                for place, device in ((in_machine, "eth0"), (in_hub, port)):
                    call(place + ["tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", own_rate, "burst", "64kb",
                                  "limit", "2mb"])
            machine.start()

    def write_keys(self):
        def path(name):
            return os.path.join(self.root, name)
        for key in ("host_key", "user_key"):
            call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path(key)])
        with open(path("host_key.pub"), encoding="utf-8") as file:
            host_key = file.read()
        with open(path("known_hosts"), "w", encoding="utf-8") as file:
            for machine in self.machines.values():
                file.write(f"{machine.address} {host_key}")
        with open(path("sshd_config"), "w", encoding="utf-8") as file:
            file.write(SSHD_CONFIG.format(root=self.root))
        with open(self.ssh_config, "w", encoding="utf-8") as file:
            for machine in self.machines.values():
                file.write(SSH_CONFIG.format(name=machine.name, address=machine.address))
            file.write(SSH_CONFIG_FOR_ALL.format(root=self.root))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __getitem__(self, name):
        return self.machines[name]

    def command(self, name, words):
        """A command that runs `words` on a machine and dies with this test."""
        machine = self.machines[name]
        enter = ["nsenter", f"--target={machine.init}", f"--wd={machine.home}", "--net", "--mount", "--uts", "--pid",
                 "--", *words]
        for group in machine.groups:
            enter = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *enter]
        return dies_with_us(enter)

    def popen(self, name, words, **options):
        machine = self.machines[name]
        return subprocess.Popen(self.command(name, words), env=machine.environment(), stdin=subprocess.DEVNULL,
                                **options)

    def run(self, name, words, timeout=PATIENCE):
        """Runs a command; returns exit status and output, standard error included."""
        with self.popen(name, words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                output, _ = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            return process.returncode, output

    def close(self):
        for machine in self.machines.values():
            machine.stop()
        if self.hub:
            self.hub.kill()
            self.hub.wait()
        self.lock.close()
        shutil.rmtree(self.root, ignore_errors=True)


def call(words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout}")


def remove_leftovers():
    """Removes the folders that killed tests left behind; no process holds the lock of such a folder."""
    for folder in glob.glob(os.path.join(tempfile.gettempdir(), PREFIX + "*")):
        try:
            with open(os.path.join(folder, "lock"), encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        shutil.rmtree(folder, ignore_errors=True)
