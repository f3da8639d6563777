"""Random lives of a whole world: programs come, go, ask and talk while links break and servers crash.

A schedule is drawn from a seed: some deliveries, one thing that happens, some deliveries, and so on. Then
the world is left alone until it is quiet, healed or as broken as it is, and everything in it must be what
the model says.
"""

from random import Random

from support.queuenet import Program, QueueNet

from rostra.names import ROOT, Domain, Endpoint, Group, Tree, enclosing, host_of
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.requests import Absolute


class Churn:
    def __init__(self, tree: Tree, seed: int) -> None:
        self.luck = Random(seed)
        self.tree = tree
        sharing = RelaxedConfig(share_collections=seed % 3 > 0)
        self.net = QueueNet(tree, self.luck.getrandbits(32), config=sharing)
        self.one_group = seed % 2 == 0  # all in one group, or in groups of all scopes
        self.paces = (1.0, 0.3, 0.05, 0.01) if seed % 5 == 0 else (1.0, 1.0, 1.0, 0.3, 0.05)
        self.names = 0
        self.net.settle()

    def round(self, happenings: int) -> None:
        for way in self.net.ways.values():
            way.patience = self.luck.choice(self.paces)
        for _ in range(happenings):
            for _ in range(self.luck.choice((0, 0, 1, 2, 5, 10, 30))):
                self.net.turn()
            self.luck.choices(*zip(*self.WEIGHTS, strict=True))[0](self)

    def settle(self) -> None:
        """Mend everything, half of the time; then wait for silence, and look."""
        if self.luck.random() < 0.5:
            for link in sorted(self.net.cut):
                self.net.heal_link(*link)
            for server in self.tree.servers:
                if server not in self.net.cores:
                    self.net.start(server)
        self.net.settle()
        self.look()
        self._resolve_everywhere()
        self._talk_everywhere()
        self.look()

    def look(self) -> None:
        discrepancies = self.net.discrepancies()
        assert not discrepancies, "\n".join(discrepancies)

    def _resolve_everywhere(self) -> None:
        """Every resolve of a quiet world gives the truth, whoever asks (C-071)."""
        for host in [host for host in self.tree.hosts if host in self.net.cores]:
            visitor = self._visitor(host)
            asked = {}
            for scope in enclosing(host):
                asked[Group("g", scope)] = self.net.resolve(visitor, Group("g", scope))
                if self.luck.random() < 0.5:
                    self.net.settle()
            self.net.settle()
            for group, token in asked.items():
                answer = self.net.answers[token]
                assert isinstance(answer, Absolute)
                found = {member.endpoint for member in answer.members}
                assert found == self.net.members_seen_from(host, group), f"{host} resolves {group} to {found}"
            self.net.kill(visitor)
        self.net.settle()

    def _talk_everywhere(self) -> None:
        """A message arrives, or its sender is told that it did not (C-152, C-156)."""
        visitors = [self._visitor(host) for host in self.tree.hosts if host in self.net.cores]
        for sender in visitors:
            others = [other.endpoint for other in visitors if other is not sender]
            if others:
                self.net.send(sender, others)
        self.net.settle()
        for sender in visitors:
            lost = {each for destinations in sender.undelivered for each in destinations}
            for receiver in visitors:
                if receiver is not sender:
                    seen = self.net.sees(host_of(sender.endpoint), host_of(receiver.endpoint))
                    assert (sender.endpoint in receiver.heard) is seen
                    assert (receiver.endpoint in lost) is not seen
        for visitor in visitors:
            self.net.kill(visitor)
        self.net.settle()

    # What can happen

    def _join(self) -> None:
        hosts = [host for host in self.tree.hosts if host in self.net.cores]
        program = self._some_program()
        if hosts and (program is None or self.luck.random() < 0.8):
            program = self._visitor(self.luck.choice(hosts))
        if program is not None:
            group = self._some_group(program)
            if group not in program.joined:
                self.net.join(program, group, online=self.luck.random() < 0.6)

    def _leave(self) -> None:
        program = self._some_program()
        if program is not None and program.joined:
            self.net.leave(program, self.luck.choice(sorted(program.joined)))

    def _switch(self) -> None:
        program = self._some_program()
        if program is not None and program.joined:
            group = self.luck.choice(sorted(program.joined))
            self.net.set_online(program, group, group not in program.online)

    def _watch(self) -> None:
        program = self._some_program()
        if program is not None:
            group = self._some_group(program)
            (self.net.unwatch if group in program.watched else self.net.watch)(program, group)

    def _resolve(self) -> None:
        program = self._some_program()
        if program is not None:
            self.net.resolve(program, self._some_group(program))

    def _talk(self) -> None:
        program = self._some_program()
        if program is not None:
            others: set[Endpoint] = {self.luck.choice(list(self.net.programs)) for _ in range(3)}
            others.discard(program.endpoint)
            if others:
                self.net.send(program, sorted(others))

    def _kill(self) -> None:
        program = self._some_program()
        if program is not None:
            self.net.kill(program)

    def _register(self) -> None:
        owners = [domain for domain in self.tree.domains if domain in self.net.cores]
        if owners:
            # A name of its own: whether members may join under it is not what is looked at here.
            group = Group(self.luck.choice(("news", "chat")), self.luck.choice(owners))
            self.net.register(group, permanent=self.luck.random() < 0.7)

    def _cut(self) -> None:
        a, b = self.luck.choice(self.tree.links())
        if (a, b) not in self.net.cut and a in self.net.cores and b in self.net.cores:
            self.net.cut_link(a, b)

    def _heal(self) -> None:
        if self.net.cut:
            self.net.heal_link(*self.luck.choice(sorted(self.net.cut)))

    def _crash(self) -> None:
        agents = [host for host in self.tree.hosts if host in self.net.cores]
        domains = [domain for domain in self.tree.domains if domain in self.net.cores]
        victims = domains if domains and self.luck.random() < 0.7 else agents
        if victims:
            victim = self.luck.choice(victims)
            self.net.crash(victim)
            if self.luck.random() < 0.5:
                self.net.start(victim)

    def _start(self) -> None:
        down = [server for server in self.tree.servers if server not in self.net.cores]
        if down:
            self.net.start(self.luck.choice(down))

    WEIGHTS = (
        (_join, 27),
        (_leave, 13),
        (_switch, 8),
        (_watch, 4),
        (_resolve, 14),
        (_talk, 4),
        (_kill, 5),
        (_register, 2),
        (_cut, 8),
        (_heal, 7),
        (_crash, 5),
        (_start, 5),
    )

    def _visitor(self, host: Domain) -> Program:
        self.names += 1
        return self.net.open(host, f"p{self.names}")

    def _some_program(self) -> Program | None:
        return self.luck.choice(list(self.net.programs.values())) if self.net.programs else None

    def _some_group(self, program: Program) -> Group:
        scopes = enclosing(host_of(program.endpoint))
        if self.one_group:
            return Group("g", ROOT)
        return Group("g", self.luck.choice(scopes if self.luck.random() < 0.4 else scopes[-2:]))


def churn(tree: Tree, seed: int, *, rounds: int = 3) -> QueueNet:
    """One random life; raises what it finds wrong."""
    life = Churn(tree, seed)
    happenings = life.luck.choice((10, 20, 60))
    for _ in range(rounds):
        life.round(happenings)
        life.settle()
    return life.net
