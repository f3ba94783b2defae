//! The crates' generators behind one face: the rows of one part as a stream of Arrow batches.

use datafusion::arrow::record_batch::RecordBatchReader;
use tpcdsgen::config::Table as DsTable;
use tpcdsgen_arrow as ds;
use tpchgen::generators as h;
use tpchgen_arrow as ha;

use super::layout::{self, PartPlan};
use super::{Scale, Suite};

/// The rows of `part`, in the generator's order, in batches of 8,000.
///
/// The reader belongs to the calling thread; its batches may be dropped or kept (dropped ones are recycled).
pub fn open(suite: Suite, scale: &Scale, part: &PartPlan) -> Box<dyn RecordBatchReader> {
    match suite {
        Suite::TpcDs => tpc_ds(scale, part),
        Suite::TpcH => tpc_h(scale, part),
    }
}

fn tpc_ds(scale: &Scale, part: &PartPlan) -> Box<dyn RecordBatchReader> {
    let session = layout::ds_session(scale);
    macro_rules! table {
        ($($table:ident => $generator:ident,)*) => {
            match layout::ds_table(part.table) {
                $(DsTable::$table => {
                    Box::new(ds::$generator::new(session).with_source_row_range(part.first, part.last))
                })*
            }
        };
    }
    table! {
        CallCenter => CallCenterArrow,
        CatalogPage => CatalogPageArrow,
        CatalogReturns => CatalogReturnsArrow,
        CatalogSales => CatalogSalesArrow,
        Customer => CustomerArrow,
        CustomerAddress => CustomerAddressArrow,
        CustomerDemographics => CustomerDemographicsArrow,
        DateDim => DateDimArrow,
        DbgenVersion => DbgenVersionArrow,
        HouseholdDemographics => HouseholdDemographicsArrow,
        IncomeBand => IncomeBandArrow,
        Inventory => InventoryArrow,
        Item => ItemArrow,
        Promotion => PromotionArrow,
        Reason => ReasonArrow,
        ShipMode => ShipModeArrow,
        Store => StoreArrow,
        StoreReturns => StoreReturnsArrow,
        StoreSales => StoreSalesArrow,
        TimeDim => TimeDimArrow,
        Warehouse => WarehouseArrow,
        WebPage => WebPageArrow,
        WebReturns => WebReturnsArrow,
        WebSales => WebSalesArrow,
        WebSite => WebSiteArrow,
    }
}

fn tpc_h(scale: &Scale, part: &PartPlan) -> Box<dyn RecordBatchReader> {
    // The generator cuts its tables itself, by its own one-based numbering.
    let (scale, number, count) = (scale.factor(), part.part as i32 + 1, part.parts as i32);
    match part.table {
        "customer" => Box::new(ha::CustomerArrow::new(h::CustomerGenerator::new(scale, number, count))),
        "lineitem" => Box::new(ha::LineItemArrow::new(h::LineItemGenerator::new(scale, number, count))),
        "nation" => Box::new(ha::NationArrow::new(h::NationGenerator::new(scale, number, count))),
        "orders" => Box::new(ha::OrderArrow::new(h::OrderGenerator::new(scale, number, count))),
        "part" => Box::new(ha::PartArrow::new(h::PartGenerator::new(scale, number, count))),
        "partsupp" => Box::new(ha::PartSuppArrow::new(h::PartSuppGenerator::new(scale, number, count))),
        "region" => Box::new(ha::RegionArrow::new(h::RegionGenerator::new(scale, number, count))),
        "supplier" => Box::new(ha::SupplierArrow::new(h::SupplierGenerator::new(scale, number, count))),
        other => unreachable!("{other} is no table of TPC-H"),
    }
}
