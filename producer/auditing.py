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
from producer.state import Session, Stepped, abort, ask_list, chain, contradicted, first_question, relist, remember

REASON = "audit"


def probe(session: Session) -> Stepped:
    """Ask how far the server is, when it answers again after a failure.

    A restored one takes a watch from a version that it has yet to reach, and is silent below it: only a bookmark would
    tell, after a minute.
    """
    if session.failures == 0 or session.auditing or session.versions.known is None:
        return session, []
    session = replace(session, probing=True, asked=session.versions.known)
    return session, [Cancel(Lane.AUDIT), Request(Lane.AUDIT, Verb.PROBE)]


def begin(session: Session, _: AuditDue) -> Stepped:
    """Ask for a list on the audit lane, unless one is under way or there is nothing to compare with."""
    if session.auditing or session.lost or session.versions.safe is None:
        return session, []
    instead: list[Output] = [Cancel(Lane.AUDIT)] if session.probing else []
    session = replace(session, auditing=True, probing=False, audit=None)
    verb = first_question(session)
    session, outputs = _list(session) if verb is Verb.LIST else (session, [Request(Lane.AUDIT, verb)])
    return session, instead + outputs


def _list(session: Session) -> Stepped:
    """Ask for the list. It cannot be older than what was known when it was asked for; the stream goes on meanwhile."""
    return replace(session, asked=session.versions.known), [Request(Lane.AUDIT, Verb.LIST)]


def answered(session: Session, answered_with: AuditAnswer) -> Stepped:
    """A page of the audit list, or its end by a fault; a fault proves nothing, the next audit is due in time."""
    answer = answered_with.answer
    if session.probing:
        return _probed(replace(session, probing=False), answer)
    if not session.auditing:
        return session, []
    if isinstance(answer, Recalled):
        return chain(remember(session, answer), _list)
    if not isinstance(answer, frames.Page):
        return replace(session, auditing=False, audit=None), [Count("audits", "failed")]
    return _page(session, answer)


def _probed(session: Session, answer: object) -> Stepped:
    """The server is not where it was, or there is nothing to tell."""
    if isinstance(answer, frames.Page) and _older(session, answer):
        return _contradicted(session, answer)
    return session, []


def _page(session: Session, answer: frames.Page) -> Stepped:
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
    return bool(session.published.older_items(answer.items, answer.rv))


def _contradicted(session: Session, answer: frames.Page) -> Stepped:
    """Ask again a few times, since a lagging server answers so too; then this list begins the new epoch."""
    session = replace(contradicted(session, answer.rv), auditing=False, audit=None)
    older = session.older
    counted: list[Output] = [Count("older_lists")]
    if older < session.rules.restore_confirmations:
        seconds = min(session.rules.backoff_max_s, session.rules.backoff_min_s * 2**older)
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
        if session.older >= session.rules.restore_confirmations:
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
