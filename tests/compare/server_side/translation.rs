//! Converts a request of the model to a request with the owner ids and tokens on the server.

use dlock::lease::{Grant, OwnerId, Token};
use dlock::store::{AcquireMode, LastRead, Request};

use super::ServerSide;
use crate::model_side::OTHER_DATABASE;
use crate::observed::number;

impl ServerSide {
    pub(super) fn translated(&self, request: &Request) -> Request {
        let set_owner = |id: &mut OwnerId| *id = self.owner_id(number(*id));
        let set_token = |token: &mut Token| {
            *token = self.token(u8::try_from(token.0).expect("few grants"));
        };
        let set_grant = |grant: &mut Grant| {
            set_owner(&mut grant.owner_id);
            set_token(&mut grant.token);
        };
        let set_last_read = |last: Option<&mut LastRead>| {
            if let Some(last) = last {
                if last.database != Some(OTHER_DATABASE) {
                    last.database = last.database.and(Some(self.database));
                }
                set_token(&mut last.version.token);
                set_token(&mut last.highest_token);
            }
        };
        let mut request = request.clone();
        match &mut request {
            Request::TryAcquire(request) => {
                set_owner(&mut request.owner_id);
                set_last_read(request.last_read.as_mut());
                match &mut request.mode {
                    AcquireMode::TakeOver { version, .. }
                    | AcquireMode::AmongSlots {
                        dead: Some((_, version)),
                        ..
                    } => set_token(&mut version.token),
                    _ => {}
                }
            }
            Request::GetWithQueue(entry) | Request::Enqueue(entry) => {
                set_owner(&mut entry.owner_id);
            }
            Request::GetNote(request) => set_owner(&mut request.owner_id),
            Request::Get | Request::RemoveNote(_) | Request::EndSessions(_) => {}
            Request::WaitTurn(turn) => {
                set_owner(&mut turn.owner_id);
                set_last_read(turn.last_read.as_mut());
            }
            Request::Renew(request) => {
                set_grant(&mut request.grant);
                if let Some(look) = &mut request.look {
                    set_token(&mut look.token);
                    look.note = look.note.as_ref().map(|_| self.command.1.clone());
                }
            }
            Request::HandOff(grant) => set_grant(grant),
            Request::Release(request) => {
                set_owner(&mut request.owner_id);
                request.token.iter_mut().for_each(set_token);
            }
        }
        request
    }
}
