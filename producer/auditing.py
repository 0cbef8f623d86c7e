"""Audits: a complete list beside the open watch, compared with what was published.

Pure. The server's own stream has lost events (k8s#123072), and no watcher can notice that. An audit speaks only about
versions that the stream has passed, and publishes only the drift. A list that contradicts what was read is the first
sign of a restored server; after enough of them the list in hand begins the new epoch.
"""

from __future__ import annotations

from dataclasses import replace

from kubecdc.records import EventType, Relist
from kubecdc.versions import newer
from producer import frames
from producer.listing import judge
from producer.published import AuditRun
from producer.signals import (
    Alarm,
    AuditAnswer,
    AuditDue,
    Cancel,
    Count,
    Lane,
    Output,
    Publish,
    PublishAbsent,
    Recalled,
    Request,
    Verb,
)
from producer.state import (
    Session,
    Stepped,
    abort,
    ask_list,
    chain,
    contradicted,
    first_question,
    relist,
    remember,
    restored,
)

REASON = "audit"


def begin(session: Session, _: AuditDue) -> Stepped:
    """Ask for a list on the audit lane, unless one is under way or there is nothing to compare with."""
    if session.auditing or session.lost or session.versions.safe is None:
        return session, []
    session = replace(session, auditing=True, audit=None)
    verb = first_question(session)
    return _list(session) if verb is Verb.LIST else (session, [Request(Lane.AUDIT, verb)])


def _list(session: Session) -> Stepped:
    """Ask for the list. It cannot be older than what was known when it was asked for; the stream goes on meanwhile."""
    return replace(session, asked=session.versions.known), [Request(Lane.AUDIT, Verb.LIST)]


def answered(session: Session, answered_with: AuditAnswer) -> Stepped:
    """A page of the audit list, or its end by a fault; a fault proves nothing, the next audit is due in time."""
    answer = answered_with.answer
    if not session.auditing:
        return session, []
    if isinstance(answer, Recalled):
        return chain(remember(session, answer), _list)
    if not isinstance(answer, frames.Page):
        return replace(session, auditing=False, audit=None), [Count("audits", "failed")]
    run = session.audit
    if run is None:
        if _older(session, answer):
            return _contradicted(session, answer)
        run = AuditRun(answer.rv)
    elif run.list_rv != answer.rv:
        return replace(session, auditing=False, audit=None), [Count("audits", "failed")]
    run.page(answer.items, session.published)
    session = replace(session, audit=run)
    if answer.continue_:
        return session, [Request(Lane.AUDIT, Verb.LIST, token=answer.continue_)]
    return judge_audit(replace(session, auditing=False))


def _older(session: Session, answer: frames.Page) -> bool:
    """The list is older than it can be, or shows an object older than it was known to be at the list's version."""
    if session.asked is not None and newer(session.asked, answer.rv):
        return True
    return bool(session.published.older_items(answer.items, answer.rv, below_list=True))


def _contradicted(session: Session, answer: frames.Page) -> Stepped:
    """Ask again a few times, since a lagging server answers so too; then this list begins the new epoch."""
    session = replace(contradicted(session, answer.rv), auditing=False, audit=None)
    counted: list[Output] = [Count("older_lists")]
    if not restored(session):
        seconds = min(session.rules.backoff_max_s, session.rules.backoff_min_s * 2**session.older)
        return session, [*counted, Alarm(AuditDue(), seconds)]
    session, outputs = abort(session, "the server was restored")
    session, asked = ask_list(session, "epoch")
    kept = [output for output in asked if not isinstance(output, Request)]
    return chain((session, [*counted, *outputs, *kept]), lambda s: judge(s, answer))


def judge_audit(session: Session) -> Stepped:
    """Publish the drift once the stream has passed the list's version."""
    run, safe = session.audit, session.versions.safe
    if run is None or session.auditing or safe is None:
        return session, []
    drift = run.judge(session.published, safe)
    if drift is None:
        return session, []
    if drift.older:
        session = replace(contradicted(session, run.list_rv), audit=None)
        if restored(session):
            return chain((session, [Count("older_lists")]), lambda s: relist(s, "epoch", at_once=True))
        return session, [Count("older_lists"), Alarm(AuditDue(), session.rules.backoff_min_s)]
    audit = Relist(f"{session.id}.audit", REASON, None, run.list_rv)
    outputs: list[Output] = [Count("audits", "complete")]
    for uid in drift.missing:
        session.published.deleted(uid, run.list_rv)
        outputs.append(PublishAbsent(session.epoch, uid, run.list_rv, audit))
    for item in (*drift.newer, *drift.unknown):
        session.published.note(item.uid, item.rv)
        outputs.append(Publish(EventType.LISTED, session.epoch, item, audit))
    if drift.missing or drift.newer or drift.unknown:
        outputs.append(Count("drift"))
    if drift.unheld:
        outputs.append(Alarm(AuditDue(), session.rules.backoff_min_s))
    return replace(session, audit=None, older=0), outputs


def drop(session: Session, _: object) -> Stepped:
    """An audit makes no sense now; whatever comes of it is nothing."""
    return replace(session, auditing=False, audit=None), [Cancel(Lane.AUDIT)]
